package gnn

import (
	"slices"

	"weft/kernel"
)

// Spec holds the settings of a model that is known by name.
type Spec struct {
	Model       string `yaml:"model"` // one of Names
	Layers      int    `yaml:"layers"`
	Hidden      int    `yaml:"hidden"`       // width of a hidden layer: the sum over all heads
	Heads       int    `yaml:"heads"`        // of graph attention
	OutputHeads int    `yaml:"output-heads"` // of the last layer, averaged
	Norm        string `yaml:"norm"`         // one of Norms, empty: none
	Activation  string `yaml:"activation"`   // one of Activations
	// Residual: the input of each hidden block except the first is added to its output.
	Residual         bool    `yaml:"residual"`
	Direction        string  `yaml:"direction"`         // in, out, both
	Dropout          float64 `yaml:"dropout"`           // after each layer but the last
	InputDropout     float64 `yaml:"input-dropout"`     // on the features
	EdgeFeatures     bool    `yaml:"use-edge-features"` // graph attention: uses the features of the edges
	TransformDropout float64 `yaml:"transform-dropout"` // graph attention: on the transformed features
	AttentionDropout float64 `yaml:"attention-dropout"` // graph attention: on the coefficients
	// Decoupled: an MLP of Layers layers, and then rounds of the model's aggregation.
	Decoupled bool    `yaml:"decoupled"`
	Teleport  float64 `yaml:"teleport"` // of the rounds
	// Rounds: 0 is the published number for appnp and sgc, and Layers for other models.
	Rounds      int    `yaml:"rounds"`
	BlockForm   string `yaml:"blocks"`      // one of BlockForms, empty: plain
	Aggregation string `yaml:"aggregation"` // GraphSAGE: one of Aggregations, empty: mean
	Jump        string `yaml:"jk"`          // one of Jumps, empty: none
	// Of R-GCN: the number of bases of the basis decomposition, or of blocks of the block-diagonal one; 0:
	// not used.
	Bases     int `yaml:"bases"`
	NumBlocks int `yaml:"num-blocks"`
	// NodeEmbedding is the number of columns of the embedding of vertices without features; 0: none.
	NodeEmbedding int `yaml:"node-embedding"`
	// Of GCNII: the share of the initial residual, the strength of the weights, and whether aggregation and
	// initial residual share one weight. Of APPNP: Alpha is the teleport probability.
	Alpha         float64 `yaml:"alpha"`
	Theta         float64 `yaml:"theta"`
	SharedWeights bool    `yaml:"shared-weights"`
}

// Norms are the names of the norms. Auto is layer norm if norms come before convolutions, and none otherwise.
var Norms = []string{"auto", "none", "batch", "layer", "graph", "pair"}

// OverVertices reports whether the norm takes statistics over all vertices in training.
func OverVertices(norm string) bool { return norm == "batch" || OverAll(norm) }

// OverAll reports whether the norm takes statistics over all vertices in training and in evaluation.
func OverAll(norm string) bool { return norm == "graph" || norm == "pair" }

// BlockForms say what surrounds a model's convolutions. Plain has norm, activation and dropout after each.
// Residual has the blocks of Platonov et al. (2023): a linear encoder, then blocks of norm, convolution and a
// feed-forward part, whose output is added to the block's input, and last a norm and a linear decoder.
var BlockForms = []string{"plain", residualForm}

const residualForm = "residual"

// Aggregations are the aggregations of GraphSAGE, with PyG's names.
var Aggregations = []string{"mean", "max", "sum"}

// Uses reports whether the model uses a setting that only some models use.
func (s Spec) Uses(setting string) bool {
	kind, _ := KindOf(s.Model)
	switch {
	case slices.Contains(hiddenSettings, setting) || slices.Contains(namedSettings, setting):
		return kind.Uses(setting)
	case s.Decoupled:
		return slices.Contains(kind.Decoupled, setting)
	case s.BlockForm == residualForm &&
		(setting == "residual" || setting == "output-heads" || setting == "jk"):
		return false
	case setting == "output-heads" && s.jumps(kind): // no layer computes the logits
		return false
	case (setting == "aggregation-order" || setting == "aggregation-chunks") && kind.Uses("aggregation") &&
		s.aggregation() == Max:
		return false // max aggregates before the product, and in one chunk
	}
	return slices.Contains(kind.Settings, setting)
}

// Depth returns the number of layers: Layers, or 1 for a model that is one convolution.
func (s Spec) Depth() int {
	if kind, _ := KindOf(s.Model); kind.single {
		return 1
	}
	return s.Layers
}

// decouples reports whether the model is an MLP and rounds.
func (s *Spec) decouples(kind ModelKind) bool {
	return s.Decoupled || kind.convolution == nil && kind.propagation != nil
}

// made returns the description of a model with an encoder and a decoder; nil for other models.
func (s *Spec) made(kind ModelKind) *deep {
	if s.BlockForm == residualForm && kind.ResidualBlocks() {
		return residualBlocks
	}
	return kind.deep
}

// Activations are the activations by name.
var Activations = map[string]kernel.Activation{
	"none": kernel.Identity, "relu": kernel.ReLU, "elu": kernel.ELU, "leaky-relu": kernel.LeakyReLU,
	"tanh": kernel.Tanh, "sigmoid": kernel.Sigmoid, "gelu": kernel.GELU,
}

// UsesEdgeFeatures reports whether the model uses the features of the edges, always or because it is asked
// to.
func (s Spec) UsesEdgeFeatures() bool {
	kind, _ := KindOf(s.Model)
	return s.readsEdges(kind)
}

func (s *Spec) readsEdges(kind ModelKind) bool {
	return kind.EdgeFeatures || s.EdgeFeatures && !s.Decoupled && kind.Uses("use-edge-features")
}

// rounds returns the rounds of a decoupled model.
func (s *Spec) rounds() Rounds { return Rounds{s.Rounds, s.Teleport} }

// aggregation returns the aggregation of GraphSAGE's layers.
func (s *Spec) aggregation() Reduce {
	switch s.Aggregation {
	case "max":
		return Max
	case "sum":
		return Sum
	}
	return Mean
}

func (s *Spec) both(k ModelKind) bool { return s.Direction == "both" && k.Uses("direction") }

// attention returns the options of a graph attention layer.
func (s *Spec) attention(last bool) GATOptions {
	o := GATOptions{
		Heads: s.Heads, Dropout: s.AttentionDropout, TransformDropout: s.TransformDropout,
		EdgeFeatures: s.EdgeFeatures,
	}
	if last {
		o.Heads, o.Average = s.OutputHeads, s.OutputHeads > 1
	}
	return o
}
