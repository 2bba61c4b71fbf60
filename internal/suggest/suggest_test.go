package suggest

import (
	"fmt"
	"strings"
	"testing"

	"weft/internal/assert"
)

func TestNearest(t *testing.T) {
	words := []string{
		"model", "layers", "hidden", "heads", "lr", "norm", "normalize-features",
		"eval-every", "train", "bench",
	}
	for typed, want := range map[string]string{
		"modl": "model", "hiden": "hidden", "hidddden": "hidden", "trian": "train", "Norm": "norm",
		"LR": "lr", "lrr": "lr",
		"eval_every": "eval-every", "lay": "layers", "normalize": "normalize-features", "heds": "heads",
		"a": "", "l": "", "r": "", "lx": "", "": "", "nosuch": "", "zzz": "", "he": "",
		"tr": "", "frobnicate": "",
		strings.Repeat("hidden", 1<<18): "",
	} {
		assert.Equal(t, want, Nearest(typed, words), "%.20q", typed)
	}
}

func TestOneOf(t *testing.T) {
	words := []string{"gcn", "sage"}
	for typed, want := range map[string]string{"sgae": "did you mean sage?", "x": "it is one of gcn, sage"} {
		assert.Equal(t, want, OneOf(typed, words), typed)
	}
}

func TestLike(t *testing.T) {
	words := []string{"weight-decay", "decay-first", "dropout", "conv-weight-decay", "a-b"}
	for typed, want := range map[string]string{
		"decay-rate": "[weight-decay decay-first conv-weight-decay]", "P_DROPOUT": "[dropout]", "a": "[]",
		"rate": "[]", "": "[]", "-": "[]",
	} {
		assert.Equal(t, want, fmt.Sprint(Like(typed, words)), typed)
	}
}

func TestSynonym(t *testing.T) {
	models := []string{"mlp", "gcn", "sage", "gat", "gatv2", "transformer", "gcnii", "resgcn"}
	for typed, want := range map[string]string{
		"gcn2": "gcnii", "GCN2Conv": "gcnii", "GraphSAGE": "sage", "sage_conv": "sage", "GATv2Conv": "gatv2",
		"deep-gcn": "resgcn", "GCN": "gcn",
		"conv": "", "": "", "mean": "", "gru": "",
	} {
		assert.Equal(t, want, Synonym(typed, models), typed)
	}
	for typed, want := range map[string]string{
		"node-classification": "did you mean vertex?", "link_prediction": "did you mean link?",
		"regression": "did you mean vertex? it learns values where the labels are numbers with a fraction",
	} {
		assert.Equal(t, want, OneOf(typed, []string{"vertex", "link"}), typed)
	}
}

func TestOther(t *testing.T) {
	other := Other{{"one", "a-b c"}, {"two", "d"}}
	for word, want := range map[string]string{"A_B": "one", "c": "one", "d": "two", "a": "", "": ""} {
		assert.Equal(t, want, other.For(word), word)
	}
}
