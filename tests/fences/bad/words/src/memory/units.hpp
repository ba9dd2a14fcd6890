/// Bytes of the unit. What of it is gathered goes.
int bytes_of_unit();
int rows;  ///< The same of one rank
/// Frees the unit's all-gathered weights, of every rank.
void free_unit();
