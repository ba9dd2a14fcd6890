"""transformers' models and its Trainer at a batch and a length that are given: `varied_transformers.py KIND BATCH LENGTH`."""

import sys
import tempfile

import torch
import transformers

KIND, BATCH, LENGTH = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
VOCAB = 50304


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 64 * BATCH

    def __getitem__(self, index):
        ids = torch.randint(VOCAB, (LENGTH,))
        return {"input_ids": ids, "labels": ids.clone()}


def llama():
    config = transformers.LlamaConfig(vocab_size=VOCAB, hidden_size=256, intermediate_size=688, num_hidden_layers=2, num_attention_heads=4,
                                      num_key_value_heads=2, max_position_embeddings=8192, use_cache=False)
    return transformers.LlamaForCausalLM(config)


def trainer(model, **options):
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(folder, per_device_train_batch_size=BATCH, max_steps=3, report_to=[], save_strategy="no",
                                                   disable_tqdm=True, **options)
        transformers.Trainer(model, arguments, train_dataset=Rows()).train()


def adapted():
    import peft

    model = peft.get_peft_model(llama(), peft.LoraConfig(r=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")).cuda().bfloat16()
    loop(model, lambda ids: model(input_ids=ids, labels=ids).loss)


def loop(model, loss_of):
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
    for _ in range(3):
        loss_of(torch.randint(VOCAB, (BATCH, LENGTH)).cuda()).backward()
        optimizer.step()
        optimizer.zero_grad()


def bert():
    config = transformers.BertConfig(vocab_size=VOCAB, hidden_size=256, num_hidden_layers=2, num_attention_heads=4, intermediate_size=1024,
                                     max_position_embeddings=LENGTH)
    model = transformers.BertForMaskedLM(config).cuda()
    loop(model, lambda ids: model(input_ids=ids, labels=ids).loss)


def t5():
    config = transformers.T5Config(vocab_size=VOCAB, d_model=256, d_kv=64, d_ff=1024, num_layers=2, num_heads=4, decoder_start_token_id=0)
    model = transformers.T5ForConditionalGeneration(config).cuda()
    loop(model, lambda ids: model(input_ids=ids, labels=ids).loss)


KINDS = {"llama_trainer": lambda: trainer(llama(), bf16=True), "lora": adapted, "bert": bert, "t5": t5}
torch.manual_seed(0)
KINDS[KIND]()
