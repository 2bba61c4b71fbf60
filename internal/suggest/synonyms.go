package suggest

import (
	"slices"
	"strings"
)

// synonyms are words of PyG, DGL, OGB and PyTorch for values that have another name here, by that name. They
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
	"cross-entropy": "ce nll bce crossentropyloss bcewithlogits bcewithlogitsloss binarycrossentropy",
	"mse":           "l2 mseloss",
	"mae":           "l1 l1loss",
	"huber":         "smoothl1 smoothl1loss huberloss",
	"roc-auc":       "auc rocauc auroc",
	"micro-f1":      "f1 f1micro",
	"macro-f1":      "f1macro",
	"accuracy":      "acc",
	"mrr":           "reciprocalrank",
	// decoders, formats, devices of a mesh
	"dot":  "innerproduct",
	"bf16": "bfloat16 half fp16 float16",
}

// Synonym is the word that stands here for one of another library, "" where none of the words does.
func Synonym(typed string, words []string) string {
	plain := strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(typed))
	short := strings.TrimSuffix(plain, "conv")
	for _, word := range words {
		if others := strings.Fields(synonyms[word]); plain == strings.ReplaceAll(word, "-", "") ||
			short == word || slices.Contains(others, plain) || slices.Contains(others, short) {
			return word
		}
	}
	return ""
}
