package main

import (
	"bytes"
	"testing"

	"weft/cmd/weft/internal/cli"
	"weft/internal/assert"
)

// TestLongOut: -o is --out, with its value or before it, but for what comes behind --.
func TestLongOut(t *testing.T) {
	args := []string{"predict", "-o", "x", "-o=y", "-optimizer", "--", "-o", "-o=z"}
	want := []string{"predict", "--out", "x", "--out=y", "-optimizer", "--", "-o", "-o=z"}
	assert.Equal(t, want, longOut(args))
}

func TestFlagErrors(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"train", "--nonsense"}, "weft: unknown flag: --nonsense; weft train --help lists them\n"},
		{[]string{"train", "-model", "gcn"}, "weft: unknown flag: -model; did you mean --model?\n"},
		{[]string{"train", "--hiden", "8"}, "weft: unknown flag: --hiden; did you mean --hidden?\n"},
		{[]string{"train", "--hiden=8"}, "weft: unknown flag: --hiden; did you mean --hidden?\n"},
		{[]string{"train", "-modl=gcn"}, "weft: unknown flag: -modl=gcn; did you mean --model=gcn?\n"},
		// Flags of DGL and PyG
		{[]string{"train", "--output-dir=r"}, "weft: unknown flag: --output-dir; --out is the directory " +
			"of the run\n"},
		{[]string{"train", "--resume-from", "r"}, "weft: unknown flag: --resume-from; --resume RUN " +
			"continues a run\n"},
		{[]string{"train", "--num-layers", "3"}, "weft: unknown flag: --num-layers; --layers is the " +
			"number of layers\n"},
		{[]string{"train", "--hidden_channels=3"}, "weft: unknown flag: --hidden_channels; --hidden is " +
			"the width of hidden layers\n"},
		{[]string{"predict", "--gpu", "0"}, "weft: unknown flag: --gpu; --device cuda computes on a " +
			"card, and cpu, the default, does not\n"},
		{[]string{"train", "-batch-size", "3"}, "weft: unknown flag: -batch-size; training is full-batch: " +
			"each epoch is one step over the whole graph\n"},
		{[]string{"train", "--learning-rate", "3"}, "weft: unknown flag: --learning-rate; --lr is the " +
			"learning rate\n"},
		{[]string{"train", "--num-workers", "3"}, "weft: unknown flag: --num-workers; --parallel AXIS=N " +
			"is the number of workers, as in graph=4\n"},
		{[]string{"import", "npz", "--device", "3"}, "weft: unknown flag: --device; weft import npz " +
			"--help lists them\n"},
		{[]string{"generate", "rmat", "--degree", "8"}, "weft: unknown flag: --degree; --edge-factor is the " +
			"number of edges for each vertex\n"},
		// A hidden one
		{[]string{"predict", "--patienc", "8"}, "weft: unknown flag: --patienc; weft predict --help " +
			"lists them\n"},
		{[]string{"train", "--a"}, "weft: unknown flag: --a; weft train --help lists them\n"},
		{[]string{"import", "npz", "--split-s", "3"}, "weft: unknown flag: --split-s; did you mean " +
			"--splits?\n"},
		{[]string{"trian", "g", "--hidden", "8"}, "weft: unknown command \"trian\"; did you mean train?\n"},
		{[]string{"import", "nzp", "--features", "f"}, "weft: unknown format \"nzp\"; did you mean npz?\n"},
		{[]string{"--nosuch", "trian"}, "weft: unknown flag: --nosuch; weft --help lists them\n"},
		{[]string{"import", "nzp"}, "weft: unknown format \"nzp\"; did you mean npz?\n"},
		{[]string{"a"}, "weft: unknown command \"a\"; it is one of append, bench, completion, datasets, " +
			"doctor, evaluate, explain, generate, import, inspect, partition, plan, predict, report, runs, serve, smooth, " +
			"stores, sweep, train, version\n"},
		{
			[]string{"train", "g", "--model", "sgae"},
			"weft: --model sgae: unknown model; did you mean sage?\n",
		},
		{[]string{"train", "g", "--norm", "x"}, "weft: --norm x: unknown norm; it is one of auto, none, " +
			"batch, layer, graph, pair\n"},
		{
			[]string{"train", "g", "--parallel", "graph=2", "--partition", "mets"},
			"weft: --partition mets: unknown partition; did you mean metis?\n",
		},
		{[]string{"train", "g", "--parallel", "grpah=4"}, "weft: --parallel grpah=4: the mesh has no axis " +
			"\"grpah\"; did you mean graph?\n"},
		{[]string{"partition", "g", "-k", "0"}, "weft: --partitions 0: give between 1 and 1024\n"},
		{
			[]string{"partition", "g", "-k", "2", "--method", "randm"},
			"weft: unknown partition method \"randm\"; did you mean random?\n",
		},
		{
			[]string{"partition", "g", "-k", "2", "--balance", "edge"},
			"weft: --balance edge: unknown balance; did you mean edges?\n",
		},
		{[]string{"train", "sbm8k"}, "weft: sbm8k: neither a store nor a dataset; did you mean sbm-8k?\n"},
		{[]string{"train", "-x"}, "weft: unknown flag: -x; weft train --help lists them\n"},
		{[]string{"train", "--seed", "x"}, "weft: --seed x: must be a whole number, 0 or more\n"},
		{[]string{"train", "--memory-limit", "x"}, "weft: --memory-limit x: must be an amount of memory " +
			"as in 4GiB or 512MB, or none\n"},
		{[]string{"train", "g", "--model"}, "weft: --model needs a value; weft train --help says which\n"},
		{
			[]string{"train", "g", "--label-input", "--out", "x"},
			"weft: --label-input needs a value, and --out follows it\n",
		},
		{[]string{"train", "g", "--lr", "inf"}, "weft: --lr +Inf: must be a finite number above 0\n"},
		{[]string{"train", "g", "--out", ""}, "weft: --out: its value is empty; give one, or leave " +
			"the flag out\n"},
		{[]string{"train", "g", "--config", ""}, "weft: --config: its value is empty; give one, or leave " +
			"the flag out\n"},
		{
			[]string{"predict", "g", "--out", "p.npy", "--embeddings", ""},
			"weft: --embeddings: its value is empty; give one, or leave the flag out\n",
		},
		{
			[]string{"import", "edges", "f", "g", "--labels", ""},
			"weft: --labels: its value is empty; give one, or leave the flag out\n",
		},
		{[]string{"import", "npz", "f", "g", "--split", "60/20/20"}, "weft: --split 60/20/20: " +
			"names no rule; --split random:60/20/20 draws one\n"},
		{[]string{"import", "npz", "f", "g", "--split="}, "weft: --split: its value is empty; give one, " +
			"or leave the flag out\n"},
		{[]string{"import", "edges", "f", "g", "--vertices", "0"}, "weft: --vertices 0: a graph has at " +
			"least one; give their number, or leave --vertices out for the largest id and one\n"},
		{[]string{"generate", "sbm", "g", "--vertices", "0"}, "weft: --vertices 0: give between 1 and " +
			"2147483647\n"},
		{[]string{"train", ""}, "weft: argument 1 is empty; the command is: weft train " +
			"DATASET|STORE [flags]\n"},
		{[]string{"predict", "", "--out", "p.npy"}, "weft: argument 1 is empty; the command is: weft " +
			"predict RUN [STORE] | --init WEIGHTS --config FILE STORE [flags]\n"},
		{[]string{"import", "edges", "f", ""}, "weft: argument 2 is empty; the command is: weft import " +
			"edges FILE... STORE [flags]\n"},
		{[]string{"generate", "sbm", "g", "--seed", "x"}, "weft: --seed x: must be a whole number, " +
			"0 or more\n"},
		{
			[]string{"generate", "sbm", "g", "--vertices", "1.5"},
			"weft: --vertices 1.5: must be a whole number, as in 5000, 200k or 2M\n",
		},
		{[]string{"generate", "sbm", "g", "--directed=x"}, "weft: --directed x: must be true or false\n"},
		{[]string{"import", "npz", "f", "g", "--splits", "x"}, "weft: --splits x: must be a whole number, " +
			"as in 5000, 200k or 2M\n"},
		// A count is written alike in every command.
		{[]string{"generate", "sbm", "g", "--vertices", "3G"}, "weft: --vertices 3000000000: give between 1 and " +
			"2147483647\n"},
		{[]string{"import", "edges", "f", "g", "--random-features", "0k"}, "weft: --random-features 0: give at " +
			"least 1 column\n"},
		{[]string{"partition", "g", "-k", "2k"}, "weft: --partitions 2000: give between 1 and 1024\n"},
		{[]string{"train", "g", "--hidden", "2M"}, "weft: --hidden 2000000: must be at least 1 and at most 1048576\n"},
		{[]string{"train", "g", "--hidden", "64,128"}, "weft: --hidden 64,128: must be a whole number, as in 5000, " +
			"200k or 2M: all hidden layers have one width, and --layers says how many layers there are\n"},
	} {
		var stderr bytes.Buffer
		root, started := newRoot()
		root.SetArgs(c.args)
		root.SetErr(&stderr)
		if status := execute(root, started); status != cli.ExitRefused || stderr.String() != c.want {
			t.Errorf("%q: status %d, %q, want %q", c.args, status, stderr.String(), c.want)
		}
	}
}
