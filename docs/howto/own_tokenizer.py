"""Exp 3: how many tokens does each tokenizer make of the same text?"""

from marin import Experiment, Scale, executor_main
from operators.pretrained_tokenizer import FolderTokenizer, PretrainedTokenizer
from operators.text_files import TextFiles
from operators.tokenize import Tokenize
from operators.train_tokenizer import TrainTokenizer

# a folder that holds tokenizer.json and tokenizer_config.json, as save_pretrained of transformers writes them,
# or the path of a tokenizer.json alone
mine = FolderTokenizer(path="/data/my_tokenizer", label="mine")

# a tokenizer of the Hugging Face hub, at a commit (its page shows the 40 digits under Files → History)
llama3 = PretrainedTokenizer(
    repo="meta-llama/Llama-3.1-8B", revision="d04e592bb4f6aa9cfee91e2e20afa771667e1d4b", label="llama3"
)


def build(scale: Scale) -> Experiment:
    training = TextFiles(path="/data/text", label="own")

    # a tokenizer that is trained on documents of the experiment
    trained = TrainTokenizer(documents=(training,), vocabulary=2048, label="own")

    tokenizers = (mine, llama3, trained)
    results = {each.label: Tokenize(documents=training, tokenizer=each, label=each.label) for each in tokenizers}
    return Experiment(issue=3, repository="", question=__doc__, results=results)


if __name__ == "__main__":
    executor_main(build)
