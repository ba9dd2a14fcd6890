int room;
