package gnn

import (
	"fmt"
	"slices"
	"strings"
)

// ModelKind describes a model that is known by name.
type ModelKind struct {
	Name string
	// Settings are the names of the settings that this model uses and some other models do not. Decoupled are
	// the same for its decoupled form.
	Settings, Decoupled []string
	// EdgeWeights says that the model uses the graph's edge weights.
	EdgeWeights bool
	// EdgeFeatures says that the model uses the features of the edges. Each relation then must have some.
	EdgeFeatures bool
	// OneDirection says that the model's layers cannot aggregate in both edge directions.
	OneDirection bool
	// Featureless says that the model takes vertices without features as one-hot rows.
	Featureless bool

	list string // PyG's name of the list of layers
	// weight and bias are names below a layer's path: of the weight that reads the layer's input (out × in),
	// and of the bias of its output
	weight, bias string
	convolution  func(s *Spec, at Module, last bool) Convolution
	// cost returns the cost of a convolution from in columns to out; for graph attention, out counts the
	// columns of all heads. edge is the number of columns of the edges' features.
	cost func(in, out, edge int) Cost
	// reads is how many weights of the layer's input lie side by side in that weight; 0: one.
	reads     int
	degrees   bool // the convolution reads Module.Degrees
	innerNorm bool // the convolution has a norm that Module.Inner makes
	root      bool // the convolution has a root weight, which Module.Plain leaves out
	// relations makes the layers of a model whose relations share weights; nil: each relation has a
	// convolution.
	relations func(l *typedLayer, b *Layer, e Env) GraphConvolution
	// deep describes a model of residual blocks; nil: norm, activation and dropout follow each convolution.
	deep *deep
	// blocks is the number of linear maps of the feed-forward part in residual blocks; 0: the model has no
	// such form.
	blocks int
	// propagation makes the rounds of the decoupled model; nil: the model has no decoupled form, or one with
	// relations. A model without convolution is always decoupled.
	propagation func(s *Spec, at Module) Block
	rounds      int  // Spec.Rounds if that is 0; 0: as many as layers
	single      bool // the model is one convolution, and uses no hiddenSettings
	oneType     bool // both ends of a relation are of one vertex type
	sameWidth   bool // the rows of both ends of a relation have the same width
}

var (
	layerSettings = []string{"norm", "residual"}
	graphSettings = append([]string{"direction", "drop-edge"}, layerSettings...)
	// settings of models with a decoupled form, in both forms
	eitherForm        = append([]string{"decoupled"}, graphSettings...)
	decoupledSettings = append([]string{"teleport", "rounds"}, eitherForm...)
	linearRounds      = append([]string{"aggregation-chunks"}, decoupledSettings...)
	// settings of models that aggregate transformed rows
	linearSettings = append([]string{"jk", "aggregation-order", "aggregation-chunks"}, eitherForm...)
	blockSettings  = append([]string{"blocks"}, linearSettings...)
	// of graph attention
	scoreSettings     = []string{"heads", "output-heads", "attention-dropout", "use-edge-features"}
	attentionSettings = append([]string{"transform-dropout"}, scoreSettings...)
	// settings of R-GCN, in both forms
	relationalSettings = []string{
		"decoupled", "bases", "aggregation-order", "aggregation-chunks", "norm",
		"residual", "drop-edge",
	}
	// settings of all models that are known by name
	namedSettings = []string{"model", "input-dropout", "node-embedding", "init-scheme"}
	// settings of all models with hidden layers
	hiddenSettings = []string{"layers", "hidden", "dropout", "activation", "decay-first-layer-only"}
)

// kinds are the models, in the order of help texts.
var kinds = []ModelKind{
	mlpModel,
	gcnModel,
	sageModel,
	gatModel,
	gatv2Model,
	transformerModel,
	ginModel,
	gineModel,
	pnaModel,
	rgcnModel,
	gcniiModel,
	resgcnModel,
	appnpModel,
	sgcModel,
}

// named returns the names of some of the models.
func named(some func(ModelKind) bool) (names []string) {
	for _, k := range kinds {
		if some(k) {
			names = append(names, k.Name)
		}
	}
	return names
}

// Names returns the names of all models.
func Names() []string { return named(func(ModelKind) bool { return true }) }

// KindOf returns the model of that name; known is false if there is none.
func KindOf(name string) (k ModelKind, known bool) {
	i := slices.IndexFunc(kinds, func(k ModelKind) bool { return k.Name == name })
	if i < 0 {
		return ModelKind{}, false
	}
	return kinds[i], true
}

// ofTypes reports whether the model is for graphs of several types of vertices or edges.
func (k ModelKind) ofTypes() bool { return k.deep == nil && k.rounds == 0 && !k.degrees }

// ofAnyTypes lists the models for relations between any two types.
func ofAnyTypes() string {
	return strings.Join(named(func(k ModelKind) bool {
		return (k.relations != nil || k.Uses("direction")) && k.ofTypes() && !k.oneType && !k.sameWidth
	}), ", ")
}

// ResidualBlocks reports whether the model has a form with residual blocks.
func (k ModelKind) ResidualBlocks() bool { return k.blocks > 0 }

// OfLayer reports whether a weight has the name of a layer's weight in a model known by name.
func OfLayer(weight string) bool {
	return slices.ContainsFunc(kinds, func(k ModelKind) bool { return strings.HasPrefix(weight, k.list+".") })
}

// Uses reports whether the model uses a setting that only some models use, in its coupled or its decoupled
// form.
func (k ModelKind) Uses(setting string) bool {
	switch {
	case slices.Contains(namedSettings, setting):
		return k.Name != ""
	case slices.Contains(hiddenSettings, setting):
		return k.Name != "" && !k.single
	}
	return slices.Contains(k.Settings, setting) || slices.Contains(k.Decoupled, setting)
}

// Decouplable returns the models that have a decoupled form.
func Decouplable() []string { return named(func(k ModelKind) bool { return k.Decoupled != nil }) }

// Featureless returns the models that need no features.
func Featureless() []string { return named(func(k ModelKind) bool { return k.Featureless }) }

// CheckDecoupled refuses a model without a decoupled form.
func CheckDecoupled(model string) error {
	if can := Decouplable(); !slices.Contains(can, model) {
		return fmt.Errorf("the model %s has no decoupled form; it is there for %s", model,
			strings.Join(can, ", "))
	}
	return nil
}
