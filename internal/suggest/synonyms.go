package suggest

import (
	"slices"
	"strings"
)

// synonyms are words of PyG, DGL, OGB and PyTorch for values with another name here, by the name here. They
// are in small letters, without hyphens, underscores, blanks, and "conv" at the end.
var synonyms = map[string]string{
	// models
	"gcnii":       "gcn2",
	"gcn":         "graph kipf graphconvolution",
	"sage":        "graphsage",
	"gat":         "graphattention",
	"gatv2":       "gat2",
	"transformer": "graphtransformer unimp",
	"gin":         "gin0 graphisomorphism",
	"rgcn":        "relgraph relgcn hetgcn fastrgcn",
	"resgcn":      "deepgcn deepergcn gen resgcnplus",
	"sgc":         "sg simplegcn",
	"appnp":       "ppnp",
	// tasks
	"vertex": "node classification vertexclassification nodeclassification regression noderegression",
	"link":   "edge linkprediction linkpred edgeprediction",
	// activations, norms, aggregations, jumping knowledge
	"leaky-relu": "lrelu",
	"batch":      "batchnorm batchnorm1d bn",
	"layer":      "layernorm ln",
	"graph":      "graphnorm gn",
	"pair":       "pairnorm pn",
	"sum":        "add",
	"max":        "pool pooling maxpool",
	"mean":       "avg average",
	"cat":        "concat concatenate",
	// losses and metrics
	"cross-entropy":     "ce nll bce crossentropyloss bcewithlogits bcewithlogitsloss binarycrossentropy",
	"mse":               "l2 mseloss",
	"mae":               "l1 l1loss",
	"huber":             "smoothl1 smoothl1loss huberloss",
	"roc-auc":           "auc rocauc auroc",
	"average-precision": "ap map averageprecisionscore prauc aucpr auprc",
	"micro-f1":          "f1 f1micro",
	"macro-f1":          "f1macro",
	"accuracy":          "acc",
	"mrr":               "reciprocalrank",
	// decoders, formats, devices of a mesh
	"dot":  "innerproduct",
	"bf16": "bfloat16 half fp16 float16",
}

// Synonym returns the word here for a word of another library, "" if there is none among words.
func Synonym(typed string, words []string) string {
	plain := plain(typed)
	short := strings.TrimSuffix(plain, "conv")
	for _, word := range words {
		if others := strings.Fields(synonyms[word]); plain == strings.ReplaceAll(word, "-", "") ||
			short == word || slices.Contains(others, plain) || slices.Contains(others, short) {
			return word
		}
	}
	return ""
}

// remarks add to the value that replaces a word of another library, by that word.
var remarks = map[string]string{
	"regression":     "it learns values where the labels are numbers with a fraction",
	"noderegression": "it learns values where the labels are numbers with a fraction",
}

// plain returns a word in small letters, without hyphens, underscores and blanks.
func plain(word string) string {
	return strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(word))
}

// Other has answers to words of other programs: rows of a sentence, and the words for it with blanks between.
type Other [][2]string

// For returns the sentence for a word, "" if there is none. Capitals, hyphens and underscores do not count.
func (o Other) For(word string) string {
	for _, row := range o {
		for other := range strings.FieldsSeq(row[1]) {
			if plain(other) == plain(word) {
				return row[0]
			}
		}
	}
	return ""
}
