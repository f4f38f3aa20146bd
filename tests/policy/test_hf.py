"""Claims about models of transformers: what is sampled is what a plain forward pass says.

The models are small and random, each of another family: GPT-2 (learned positions), Qwen2 (rotary,
grouped heads, a chat template, two ends) and Bloom (no positions at all).
"""

import json
import shutil
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch

from course.core.digests import sha256_file
from course.core.errors import CourseError, DataError, MachineError, UsageError
from course.core.records import Sample
from course.policy.completer import How, Request
from course.policy.hf import HFPolicy
from course.policy.sampling import Drawn, draw
from course.policy.tiny import TinyPolicy

PROMPTS = ("Sam has 15 shells and gives 7 to Ann. How many are left?", "3+5?", "x", "Ann has 12")
"""Very different lengths, so that most rows are mostly padding."""

REQUESTS = [Request(f"e{number}", prompt) for number, prompt in enumerate(PROMPTS)]
HOW = How(n=4, max_new_tokens=10, seed=3)
CONTEXT = 128
SPECIAL = ("<s>", "</s>", "<|im_start|>", "<|im_end|>")  # tokens 0 .. 3
CHAT = (
    "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_tokenizer(chat_template: str | None) -> Any:
    """One token per byte, as in GPT-2's before its merges; it starts every text with <s>."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate([*SPECIAL, *letters])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        additional_special_tokens=["<|im_start|>", "<|im_end|>"],
        chat_template=chat_template,
        clean_up_tokenization_spaces=True,
    )


def small_model(family: str) -> Any:
    """A random model whose choices are clear, and whose end comes now and then."""
    import transformers

    torch.manual_seed(0)
    ids = {"vocab_size": 260, "bos_token_id": 0, "eos_token_id": 1}
    config: Any
    if family == "gpt2":
        config = transformers.GPT2Config(n_positions=CONTEXT, n_embd=32, n_layer=2, n_head=4, **ids)
        model: Any = transformers.GPT2LMHeadModel(config)
    elif family == "qwen2":
        config = transformers.Qwen2Config(
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=CONTEXT,
            tie_word_embeddings=True,
            **ids,
        )
        model = transformers.Qwen2ForCausalLM(config)
        model.generation_config.eos_token_id = [1, 3]
    else:
        config = transformers.BloomConfig(hidden_size=32, n_layer=2, n_head=4, **ids)
        model = transformers.BloomForCausalLM(config)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 2:
                weight.mul_(8)
        model.get_input_embeddings().weight[[1, 3]] *= 4
    return model


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Models this small are computed sooner by one thread than by several."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder for each family, as save_pretrained writes it."""
    made = {}
    for family in ("gpt2", "qwen2", "bloom"):
        made[family] = tmp_path_factory.mktemp("hf") / family
        small_model(family).save_pretrained(made[family])
        byte_tokenizer(CHAT if family == "qwen2" else None).save_pretrained(made[family])
    return made


@pytest.fixture(scope="module")
def policies(folders: dict[str, Path]) -> dict[str, HFPolicy]:
    """The same, opened on the CPU."""
    return {name: HFPolicy.open(str(path), device="cpu") for name, path in folders.items()}


@pytest.fixture(params=["gpt2", "qwen2", "bloom"])
def policy(request: pytest.FixtureRequest, policies: dict[str, HFPolicy]) -> HFPolicy:
    return policies[request.param]


@pytest.fixture
def copy(folders: dict[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    """A copy of a family's folder, to break."""
    return lambda family: Path(shutil.copytree(folders[family], tmp_path / family))


def drawn_by(policy: HFPolicy, how: How = HOW) -> Drawn:
    prompts = [policy.encode(prompt) for prompt in PROMPTS]
    return draw(policy.decoder, prompts, [request.id for request in REQUESTS], how)


def plain_logprobs(policy: HFPolicy, prompt: list[int], written: list[int]) -> torch.Tensor:
    """Log-probs of what was written, by one forward pass without padding or cache."""
    with torch.no_grad():
        logits = policy.model(input_ids=torch.tensor([prompt + written]), use_cache=False).logits
    logprobs = logits[0, len(prompt) - 1 : -1].float().log_softmax(-1)  # (T, V)
    return logprobs.gather(1, torch.tensor(written)[:, None])[:, 0]


def test_logprobs_are_those_of_a_plain_forward_pass(policy: HFPolicy) -> None:
    """Padding, the cache, its sharing by a group and the dropping of rows change nothing."""
    drawn = drawn_by(policy)
    assert 0 < int(drawn.stopped.sum()) < len(drawn.stopped), "some end, some are cut"
    assert len(set(drawn.lengths.tolist())) > 2, "rows are dropped at different steps"
    for row, length in enumerate(drawn.lengths.tolist()):
        prompt = policy.encode(PROMPTS[row // HOW.n])
        plain = plain_logprobs(policy, prompt, drawn.tokens[row, :length].tolist())
        torch.testing.assert_close(drawn.logprobs[row, :length], plain, atol=1e-4, rtol=0)


def test_rows_are_told_apart_when_as_many_are_left_as_there_were_prompts(
    policy: HFPolicy,
) -> None:
    """Both samples of prompt 1 end at once: two rows for two prompts, and both are prompt 0's."""
    prompts = [policy.encode(prompt) for prompt in PROMPTS[:2]]
    policy.decoder.start(prompts, 2)
    logits = policy.decoder.step(torch.tensor([70, 71]), torch.tensor([0, 1]))
    for row, token in enumerate((70, 71)):
        alone = policy.model(input_ids=torch.tensor([[*prompts[0], token]])).logits[0, -1]
        torch.testing.assert_close(logits[row], alone, atol=1e-4, rtol=0)


def test_a_sample_is_what_was_drawn(policy: HFPolicy) -> None:
    """The end is counted as a token and is no text; what the limit cut is marked."""
    drawn = drawn_by(policy)
    answers = policy.complete(REQUESTS, HOW)
    assert [len(samples) for samples in answers] == [4, 4, 4, 4]
    for row, sample in enumerate(sample for samples in answers for sample in samples):
        assert isinstance(sample, Sample)
        length, stopped = int(drawn.lengths[row]), bool(drawn.stopped[row])
        assert sample.num_tokens == length
        assert sample.finish_reason == ("stop" if stopped else "length")
        assert sample.sum_logprob == pytest.approx(float(drawn.logprobs[row].sum()), abs=1e-5)
        text = drawn.tokens[row, : length - 1 if stopped else length].tolist()
        assert sample.completion == policy.tokenizer.decode(
            text, clean_up_tokenization_spaces=False
        )


def test_greedy_is_what_generate_writes(policy: HFPolicy) -> None:
    """Temperature 0 gives the tokens of transformers' own greedy search, prompt by prompt."""
    how = How(temperature=0, max_new_tokens=10)
    drawn = drawn_by(policy, how)
    for row, prompt in enumerate(PROMPTS):
        given = torch.tensor([policy.encode(prompt)])
        written = policy.model.generate(
            given,
            attention_mask=torch.ones_like(given),
            do_sample=False,
            max_new_tokens=10,
            pad_token_id=0,
        )[0, given.shape[1] :]
        assert drawn.tokens[row, : drawn.lengths[row]].tolist() == written.tolist()


def test_a_tiny_policy_writes_the_same_through_either_door(tiny_folder: Path) -> None:
    """hf: and tiny: read one folder alike: same prompt tokens, same draws, same log-probs."""
    ours = TinyPolicy("tiny", tiny_folder).complete(REQUESTS, HOW)
    theirs = HFPolicy.open(str(tiny_folder), device="cpu").complete(REQUESTS, HOW)
    for one, other in zip(chain(*ours), chain(*theirs), strict=True):
        assert one and other
        assert (one.completion, one.num_tokens, one.finish_reason) == (
            other.completion,
            other.num_tokens,
            other.finish_reason,
        )
        assert one.sum_logprob == pytest.approx(other.sum_logprob, abs=1e-4)


def test_a_draw_depends_on_seed_id_and_index_alone(policy: HFPolicy) -> None:
    """Other prompts beside it and more samples after it leave a sample as it is."""

    def texts(requests: list[Request], how: How) -> list[list[str]]:
        return [[s.completion for s in row if s] for row in policy.complete(requests, how)]

    whole = texts(REQUESTS, HOW)
    assert [row[:2] for row in whole[:0:-1]] == texts(
        REQUESTS[:0:-1], How(n=2, max_new_tokens=10, seed=3)
    )
    assert whole != texts(REQUESTS, How(n=4, max_new_tokens=10, seed=4))
    renamed = [Request(f"other-{request.id}", request.prompt) for request in REQUESTS]
    assert whole != texts(renamed, HOW)


def test_the_chat_template_is_applied_once(policies: dict[str, HFPolicy]) -> None:
    """The template writes <s> itself, so the tokenizer must not write a second one."""
    qwen2 = policies["qwen2"]
    expected = "<s><|im_start|>user\n3+5?<|im_end|>\n<|im_start|>assistant\n"
    assert qwen2.decode(qwen2.encode("3+5?")) == expected


def test_without_a_template_the_prompt_is_given_as_it_is(policies: dict[str, HFPolicy]) -> None:
    """Only what the tokenizer starts a text with stands before it, and nothing after."""
    gpt2 = policies["gpt2"]
    assert gpt2.decode(gpt2.encode("3+5?")) == "<s>3+5?"


def test_decoding_hides_nothing(policies: dict[str, HFPolicy]) -> None:
    """A special token in the middle and a space before a full stop are what the policy wrote."""
    gpt2 = policies["gpt2"]
    text = "Final: 8<|im_start|> , is n't it ?\n"
    assert gpt2.decode(gpt2.encode(text)[1:]) == text


def test_decoding_tidies_no_spaces(policies: dict[str, HFPolicy]) -> None:
    """Some tokenizers ask for " ," to become ",": that text was never written."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({"8": 0, ",": 1, "?": 2}, unk_token="?"))
    tokenizer: Any = PreTrainedTokenizerFast(
        tokenizer_object=words, clean_up_tokenization_spaces=True
    )
    policy = HFPolicy(policies["gpt2"].model, tokenizer, {"name": "words"})
    assert policy.decode([0, 1, 0]) == "8 , 8"


def test_any_of_several_ends_will_do(policies: dict[str, HFPolicy]) -> None:
    """generation_config names two ends; both end a completion, and nothing else does."""
    qwen2 = policies["qwen2"]
    drawn = drawn_by(qwen2, How(n=64, max_new_tokens=10))
    last = drawn.tokens.gather(1, drawn.lengths[:, None] - 1)[:, 0]
    assert qwen2.decoder.stops == {1, 3}
    assert set(last[drawn.stopped].tolist()) == {1, 3}
    assert drawn.lengths[~drawn.stopped].tolist() == [10] * int((~drawn.stopped).sum())


def test_without_an_end_the_limit_ends_everything(copy: Callable[[str], Path]) -> None:
    """A model that names no end is sampled, and says what that means."""
    folder = copy("gpt2")
    for name in ("config.json", "generation_config.json", "tokenizer_config.json"):
        text = (folder / name).read_text()
        text = text.replace('"eos_token_id": 1', '"eos_token_id": null')
        (folder / name).write_text(text.replace('"eos_token": "</s>"', '"eos_token": null'))
    policy = HFPolicy.open(str(folder), device="cpu")
    assert policy.decoder.stops == frozenset()
    assert "no end-of-sequence token" in policy.notes[0]
    samples = chain(*policy.complete(REQUESTS, HOW))
    assert {(s.num_tokens, s.finish_reason) for s in samples if s} == {(10, "length")}


def test_half_precision_gives_full_precision_logprobs(folders: dict[str, Path]) -> None:
    """Logits leave the model as float32, whatever it computes in; the facts name the dtype."""
    policy = HFPolicy.open(str(folders["qwen2"]), dtype="bfloat16", device="cpu")
    assert policy.facts["dtype"] == "bfloat16"
    assert policy.decoder.start([policy.encode("x")], 1).dtype == torch.float32
    assert all(s and s.num_tokens for s in chain(*policy.complete(REQUESTS, HOW)))


def test_the_facts_identify_the_model(
    folders: dict[str, Path], policies: dict[str, HFPolicy]
) -> None:
    """A folder is known by the hash of each of its files; on the CPU auto is float32."""
    facts = policies["qwen2"].facts
    weights = folders["qwen2"] / "model.safetensors"
    assert facts["kind"] == "hf" and facts["name"] == str(folders["qwen2"])
    assert facts["sha256"]["model.safetensors"] == sha256_file(weights)
    assert {"config.json", "tokenizer.json"} <= set(facts["sha256"])
    assert (facts["dtype"], facts["device"], facts["revision"]) == ("float32", "cpu", None)
    assert len(facts["chat_template_sha256"]) == 64
    assert policies["gpt2"].facts["chat_template_sha256"] is None


def test_a_prompt_without_room_is_refused_before_any_work(policies: dict[str, HFPolicy]) -> None:
    """117 bytes and <s> leave 10 of 128 tokens, as many as a completion may have; 118 do not."""
    gpt2 = policies["gpt2"]
    gpt2.check([Request("fits", "x" * 117)], HOW)
    with pytest.raises(DataError, match=r"^long: .* 119 tokens .* 10, .* can hold 128 together"):
        gpt2.check([Request("fits", "x" * 117), Request("long", "x" * 118)], HOW)
    policies["bloom"].check([Request("long", "x" * 500)], HOW)  # its positions have no end


def test_a_prompt_without_tokens_is_refused(copy: Callable[[str], Path]) -> None:
    """With nothing to go on from there is no first token; with <s> there is."""
    folder = copy("gpt2")
    plain = json.loads((folder / "tokenizer.json").read_text())
    plain["post_processor"] = None
    (folder / "tokenizer.json").write_text(json.dumps(plain))
    policy = HFPolicy.open(str(folder), device="cpu")
    with pytest.raises(DataError, match=r"^none: the prompt is empty"):
        policy.check([Request("none", "")], HOW)


def refused(error: type[CourseError], match: str, name: object, **choice: str) -> None:
    with pytest.raises(error, match=match):
        HFPolicy.open(str(name), **choice)


def test_what_is_no_model_is_named(tmp_path: Path, copy: Callable[[str], Path]) -> None:
    """A missing folder, one without a config, and a file are three different mistakes."""
    refused(DataError, "does not exist", tmp_path / "nowhere")
    refused(DataError, "has no config.json", tmp_path)
    refused(DataError, "is a file", copy("gpt2") / "config.json")


def test_a_broken_model_is_named(copy: Callable[[str], Path]) -> None:
    """Weights that are lacking, cut off, or of no causal model are refused, never made up."""
    from safetensors.torch import load_file, save_file

    folder = copy("gpt2")
    weights = load_file(folder / "model.safetensors")
    del weights["transformer.h.1.mlp.c_fc.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    refused(DataError, r"1 tensors .*h\.1\.mlp\.c_fc\.weight", folder)
    (folder / "model.safetensors").write_bytes(b"not weights")
    refused(DataError, "not a causal language model .* can open", folder)
    folder = copy("qwen2")
    (folder / "config.json").write_text('{"model_type": "t5"}')
    refused(DataError, "not a causal language model .* can open", folder)
    (folder / "config.json").write_text("{")
    refused(DataError, "not a causal language model .* can open", folder)


def test_code_that_comes_with_a_model_is_not_run(copy: Callable[[str], Path]) -> None:
    """A folder that wants its own Python code to be run is refused, without a question."""
    folder = copy("qwen2")
    own = '{"model_type": "own", "auto_map": {"AutoConfig": "c.C", "AutoModelForCausalLM": "c.M"}}'
    (folder / "config.json").write_text(own)
    (folder / "c.py").write_text("raise SystemExit('this code ran')")
    refused(DataError, "not a causal language model .* can open", folder)


def test_a_model_that_reads_both_ways_is_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    """A BERT predicts a token from both sides and keeps no cache: it writes no completion."""
    import transformers

    library: Any = transformers
    config = library.BertConfig(
        vocab_size=260, hidden_size=16, num_hidden_layers=1, num_attention_heads=1
    )
    policy = HFPolicy(library.BertLMHeadModel(config), byte_tokenizer(None), {"name": "bert"})
    with pytest.raises(DataError, match=r"BertLMHeadModel .* keeps no cache"):
        policy.complete(REQUESTS, HOW)


def test_a_hub_that_cannot_be_reached_is_the_machines_lack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without a network a hub name cannot be looked up; that is not the name's fault."""
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    refused(MachineError, "no folder nobody/nothing, and .* cannot be reached", "nobody/nothing")
    refused(DataError, "no model of that name", "no model has this name")


def test_a_device_or_dtype_that_is_not_there_is_refused(folders: dict[str, Path]) -> None:
    """An unknown word is bad usage; a GPU that the machine lacks is the machine's lack."""
    refused(UsageError, "--device tpu is unknown", folders["gpt2"], device="tpu")
    refused(UsageError, "--dtype int8 is unknown", folders["gpt2"], dtype="int8")
    refused(MachineError, "--device cuda:99: torch finds", folders["gpt2"], device="cuda:99")
    if not torch.cuda.is_available():
        refused(MachineError, "no such GPU", folders["gpt2"], device="cuda")
