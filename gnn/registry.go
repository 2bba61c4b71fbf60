package gnn

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"weft/internal/refusal"
	"weft/kernel"
	"weft/nn"
)

// Spec holds the settings of a model that is known by name.
type Spec struct {
	Model       string `yaml:"model"` // one of Names
	Layers      int    `yaml:"layers"`
	Hidden      int    `yaml:"hidden"`       // width of a hidden layer, over all heads together
	Heads       int    `yaml:"heads"`        // of graph attention
	OutputHeads int    `yaml:"output-heads"` // of the last layer, averaged
	Norm        string `yaml:"norm"`         // one of Norms, empty: none
	Activation  string `yaml:"activation"`   // one of Activations
	// the input of each hidden block but the first is added to its output
	Residual         bool    `yaml:"residual"`
	Direction        string  `yaml:"direction"`         // in, out, both
	Dropout          float64 `yaml:"dropout"`           // after each layer but the last
	InputDropout     float64 `yaml:"input-dropout"`     // on the features
	EdgeFeatures     bool    `yaml:"use-edge-features"` // graph attention: uses the features of the edges
	TransformDropout float64 `yaml:"transform-dropout"` // graph attention: on the transformed features
	AttentionDropout float64 `yaml:"attention-dropout"` // graph attention: on the coefficients
	// Decoupled: an MLP of Layers layers, followed by rounds of the model's aggregation
	Decoupled bool    `yaml:"decoupled"`
	Teleport  float64 `yaml:"teleport"` // of the rounds
	// Rounds: 0: as many as published for appnp and sgc, and as many as Layers for other models
	Rounds int `yaml:"rounds"`
	// decoupled graph attention: one of AttentionGradients
	AttentionGradient string `yaml:"attention-gradient"`
	BlockForm         string `yaml:"blocks"`      // one of BlockForms, empty: plain
	Aggregation       string `yaml:"aggregation"` // GraphSAGE: one of Aggregations, empty: mean
	Jump              string `yaml:"jk"`          // one of Jumps, empty: none
	// R-GCN: the number of bases of the basis decomposition, or of blocks of the block-diagonal one; 0: not
	// used
	Bases     int `yaml:"bases"`
	NumBlocks int `yaml:"num-blocks"`
	// columns of the embedding of vertices without features; 0: none
	NodeEmbedding int `yaml:"node-embedding"`
	// GCNII: the share of the initial residual, the strength of the weights, and whether aggregation and
	// initial residual share one weight. APPNP: Alpha is the teleport
	Alpha         float64 `yaml:"alpha"`
	Theta         float64 `yaml:"theta"`
	SharedWeights bool    `yaml:"shared-weights"`
}

// Norms are the names of the norms. Auto is layer norm if norms come before convolutions, and none otherwise.
var Norms = []string{"auto", "none", "batch", "layer", "graph", "pair"}

// OverVertices reports whether the norm's training takes statistics over all vertices.
func OverVertices(norm string) bool { return norm == "batch" || OverAll(norm) }

// OverAll reports whether the norm takes statistics over all vertices in training and in evaluation.
func OverAll(norm string) bool { return norm == "graph" || norm == "pair" }

// BlockForms say what surrounds a model's convolutions. Plain has norm, activation and dropout after each.
// Residual has the blocks of Platonov et al. (2023): a linear encoder, then blocks of norm, convolution and a
// feed-forward part, whose output is added to the block's input, and last a norm and a linear decoder.
var BlockForms = []string{"plain", residualForm}

const residualForm = "residual"

// AttentionGradients say whether a gradient flows through the coefficients of decoupled graph attention.
var AttentionGradients = []string{"full", "stop"}

// Aggregations are the aggregations of GraphSAGE, with PyG's names.
var Aggregations = []string{"mean", "max", "sum"}

// ModelKind describes a model that is known by name.
type ModelKind struct {
	Name string
	// Settings are the names of the settings that the model uses, among those that only some models use.
	// Decoupled are those that its decoupled form uses.
	Settings, Decoupled []string
	// EdgeWeights says that the model uses the graph's edge weights.
	EdgeWeights bool
	// EdgeFeatures says that the model uses the features of the edges. Each relation then must have some.
	EdgeFeatures bool
	// OneDirection says that its layers aggregate in one edge direction, and cannot in both.
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
	// how many times the weight that reads the layer's input has its columns, side by side; 0: once
	reads   int
	degrees bool // the convolution reads Module.Degrees
	root    bool // the convolution has a root weight, which Module.Plain leaves out
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
	// of models with a decoupled form, in both forms
	eitherForm        = append([]string{"decoupled"}, graphSettings...)
	decoupledSettings = append([]string{"teleport", "rounds"}, eitherForm...)
	linearRounds      = append([]string{"aggregation-chunks"}, decoupledSettings...)
	// of aggregations of transformed rows
	linearSettings = append([]string{"jk", "aggregation-order", "aggregation-chunks"}, eitherForm...)
	blockSettings  = append([]string{"blocks"}, linearSettings...)
	// of graph attention
	scoreSettings     = []string{"heads", "output-heads", "attention-dropout", "use-edge-features"}
	attentionSettings = append([]string{"transform-dropout"}, scoreSettings...)
	// in both forms
	relationalSettings = []string{
		"decoupled", "bases", "aggregation-order", "aggregation-chunks", "norm",
		"residual", "drop-edge",
	}
	decoupledAttention = []string{"attention-dropout", "attention-gradient"}
	// of all models that are known by name
	namedSettings = []string{"model", "input-dropout", "node-embedding", "init-scheme"}
	// of all models with hidden layers
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

// Names are the models that are known by name.
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

// ofAnyTypes lists the models for relations between whatever types.
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
		return false // it comes before the product, and in one chunk
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

// made describes the model if it has an encoder and a decoder; nil for other models.
func (s *Spec) made(kind ModelKind) *deep {
	if s.BlockForm == residualForm && kind.ResidualBlocks() {
		return residualBlocks
	}
	return kind.deep
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

// Activations are the activations by name.
var Activations = map[string]kernel.Activation{
	"none": kernel.Identity, "relu": kernel.ReLU, "elu": kernel.ELU, "leaky-relu": kernel.LeakyReLU,
	"tanh": kernel.Tanh, "sigmoid": kernel.Sigmoid, "gelu": kernel.GELU,
}

// Blocks describes a model known by name: Layers convolutions, of which the last has classes columns and the
// others Hidden columns, with norm, activation and dropout between them. Parameters have PyG's names
// (torch_geometric.nn.models). A decoupled model is the model mlp of so many layers, followed by a block of
// the rounds; for R-GCN, the layers are its own, and only the last has relations. A deep model has a block
// before the Layers and a block after them. On a graph with several types of vertices or edges, a layer has a
// convolution for each relation, and the names of PyG's to_hetero. Blocks refuses what the graph does not
// allow.
func (s Spec) Blocks(schema Schema, classes int) ([]BlockSpec, error) {
	kind, known := KindOf(s.Model)
	if !known {
		return nil, fmt.Errorf("unknown model %q", s.Model)
	}
	if _, known := Activations[s.Activation]; !known {
		return nil, fmt.Errorf("unknown activation %q", s.Activation)
	}
	if kind.OneDirection && s.Direction == "both" {
		return nil, fmt.Errorf("the model %q aggregates along one direction", s.Model)
	}
	if err := s.checkSchema(kind, schema); err != nil {
		return nil, err
	}
	if kind.typed(schema) {
		return s.typed(kind, schema, classes)
	}
	if s.readsEdges(kind) && schema.edgeColumns() == 0 {
		return nil, s.noEdgeFeatures("the edges")
	}
	s.Layers = s.Depth()
	s.Rounds = cmp.Or(s.Rounds, kind.rounds, s.Layers)
	features, edge := schema.Types[0].Columns, schema.edgeColumns()
	if s.decouples(kind) {
		if s.Decoupled {
			if err := CheckDecoupled(s.Model); err != nil {
				return nil, err
			}
		}
		return s.decoupled(kind, features, classes), nil
	}
	if d := s.made(kind); d != nil {
		if s.Norm == "auto" {
			s.Norm = "layer"
		}
		return d.blocks(&s, kind, features, classes), nil
	}
	return s.layers(kind, features, edge, classes), nil
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

// noEdgeFeatures refuses a model that uses edge features for edges that have none.
func (s *Spec) noEdgeFeatures(what string) error {
	model := s.Model
	if kind, _ := KindOf(model); !kind.EdgeFeatures {
		return refusal.Errorf("--use-edge-features: %s have none; import the graph with those of its "+
			"source, or leave it out", what)
	}
	return refusal.Errorf("--model %s: it uses edge features, and %s have none; import the graph with "+
		"those of its source, or take another --model", model, what)
}

// typed reports whether the model's layers have a convolution for each relation of the schema.
func (k ModelKind) typed(schema Schema) bool {
	return k.relations != nil || schema.Typed() && k.Uses("direction")
}

// checkSchema refuses a model that does not fit a graph of several types of vertices or edges, and embeddings
// that no layer would read.
func (s *Spec) checkSchema(kind ModelKind, schema Schema) error {
	reads := schema.Types
	if !kind.typed(schema) {
		reads = reads[:1]
		for _, output := range schema.Outputs {
			if output > 0 {
				return refusal.Errorf("--model %s: it computes rows of the vertex type %q alone, and those "+
					"of %q are wanted; take --model %s", s.Model, schema.Types[0].Name,
					schema.Types[output].Name, ofAnyTypes())
			}
		}
	}
	if bare := slices.ContainsFunc(reads, func(t VertexType) bool {
		return t.Columns == 0
	}); s.NodeEmbedding > 0 && !bare {
		return refusal.Errorf("--node-embedding %d: all vertices that are read have features; leave it out",
			s.NodeEmbedding)
	}
	if !schema.Typed() {
		return nil
	}
	refuse := func(setting, value, what string) error {
		return refusal.Errorf("--%s%s: %s along one relation, and the graph has several types of vertices or "+
			"edges; take --model %s without --decoupled and residual blocks", setting, value,
			what, ofAnyTypes())
	}
	switch {
	case s.Decoupled && kind.relations == nil:
		return refuse("decoupled", "", "a decoupled model aggregates")
	case s.jumps(kind):
		return refusal.Errorf("--jk %s: outputs of layers are combined for one type of vertices, and the "+
			"graph has several types of vertices or edges; leave it out", s.Jump)
	case s.made(kind) == residualBlocks:
		return refuse("blocks", " "+residualForm, "residual blocks aggregate")
	case !kind.ofTypes():
		return refuse("model", " "+s.Model, "it aggregates")
	}
	return nil
}

// layers describes the layers of a model, on edges with so many columns of features. Those of a jumping
// knowledge network are all of the hidden width, and a linear layer follows them.
func (s Spec) layers(kind ModelKind, features, edge, classes int) (specs []BlockSpec) {
	in, jumps := s.read(features), s.jumps(kind)
	for i := range s.Layers {
		last := i == s.Layers-1 && !jumps
		b := BlockSpec{In: in, Out: s.Hidden, EdgeFeatures: s.readsEdges(kind), Degrees: kind.degrees}
		if last {
			b.Out = classes
		}
		b.Cost = s.cost(kind, b.In, b.Out, edge, last)
		if kind.rounds > 0 {
			b.Rounds, b.Cost.Edge = s.Rounds, b.Cost.Edge*s.Rounds
		}
		b.Build = func(e Env) Block { return s.layer(kind, i, b.In, b.Out, last, e) }
		specs = append(specs, b)
		in = b.Out
	}
	if jumps {
		return s.jumping(specs, classes)
	}
	return specs
}

// read returns how many columns the first block reads: those of the features or, without features, of the
// embedding.
func (s *Spec) read(features int) int { return cmp.Or(features, s.NodeEmbedding) }

// embedding makes the embedding that the first block reads if the vertices of type i have no features; nil:
// it reads none.
func (s *Spec) embedding(i int, e Env) *nn.Param {
	of := e.Types[i]
	if s.NodeEmbedding == 0 || of.Columns > 0 {
		return nil
	}
	return e.Params.Table("embed."+of.Name+".weight", e.Rows[i], 0, s.NodeEmbedding, nn.Normal())
}

// decoupled describes the decoupled form of a model. Its MLP has the initial values of GCN's layers:
// PyTorch's are smaller, and a deep MLP without a norm then does not learn.
func (s Spec) decoupled(kind ModelKind, features, classes int) []BlockSpec {
	transform := s.perceptron()
	mlp, _ := KindOf(transform.Model)
	mlp.convolution = func(_ *Spec, at Module, _ bool) Convolution {
		return newLinear(at, nn.Glorot(at.In, at.Out), nn.Constant(0))
	}
	specs := transform.layers(mlp, features, 0, classes)
	b := BlockSpec{In: classes, Out: classes, Cost: Cost{Edge: s.Rounds * classes}, Rounds: s.Rounds}
	if s.Uses("attention-gradient") {
		b.Cost.Vertex = 2 * classes // two scores
	}
	b.Build = func(e Env) Block {
		along := Along{Relation: e.Only(), Reversed: s.Direction == "out"}
		return kind.propagation(&s, Module{
			Path: propagationPath, In: classes, Out: classes, Params: e.Params,
			Propagator: e.Propagators(propagationPath, along),
		})
	}
	return append(specs, b)
}

// perceptron returns the MLP before the rounds of a decoupled model.
func (s Spec) perceptron() Spec {
	s.Model, s.Decoupled, s.BlockForm = "mlp", false, BlockForms[0]
	return s
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

// cost returns the cost of a layer.
func (s *Spec) cost(kind ModelKind, in, out, edge int, last bool) Cost {
	columns := out
	if kind.Uses("heads") {
		columns = s.attention(last).columns(out)
	}
	if !s.readsEdges(kind) {
		edge = 0
	}
	c := kind.cost(in, columns, edge)
	if kind.Uses("aggregation") && s.aggregation() == Max { // it comes before the product
		c.Edge = in
	}
	if s.both(kind) {
		c = Cost{2 * c.Vertex, 2 * c.Edge}
	}
	if s.both(kind) || kind.root {
		c.Vertex += in * out
	}
	return c
}

// layer builds layer i. The last computes the logits.
func (s *Spec) layer(kind ModelKind, i, in, out int, last bool, e Env) *Layer {
	at := Module{
		Path: kind.path(i), In: in, Out: out, EdgeColumns: e.edgeColumns(), Params: e.Params,
		Degrees: e.Degrees, Activation: Activations[s.Activation], Inner: s.norms(e),
	}
	l := TypeLayer{}
	if i == 0 {
		l.Input = nn.Dropout{Path: "input", P: s.InputDropout}
		l.Embedding = s.embedding(0, e)
	}
	if !last {
		s.hidden(&l, i, fmt.Sprintf("norms.%d", i), at.Path, out, e)
	}
	at.Norm = l.Norm
	return NewLayer(s.convolution(kind, at, e, last), l)
}

// hidden adds to a vertex type's part of layer i, of so many columns, what follows the convolution of a
// hidden layer: the norm with that module path, activation, dropout keyed by the module path of the part, and
// the residual connection.
func (s *Spec) hidden(t *TypeLayer, i int, norm, path string, columns int, e Env) {
	t.Norm = s.norm(e, norm, columns)
	t.Activation = Activations[s.Activation]
	t.Dropout = nn.Dropout{Path: path, P: s.Dropout}
	t.Residual = s.Residual && i > 0
}

// convolution builds the convolution of a Module in the model's edge direction.
func (s *Spec) convolution(kind ModelKind, at Module, e Env, last bool) Convolution {
	conv := func(at Module) Convolution { return kind.convolution(s, at, last) }
	switch {
	case s.both(kind):
		return NewBoth(at, e.Propagators, e.Only(), conv)
	case kind.Uses("direction"):
		at.Propagator = e.Propagators(at.Path, Along{Relation: e.Only(), Reversed: s.Direction == "out"})
	}
	return conv(at)
}

// norm makes the norm with that module path; nil for none.
func (s *Spec) norm(e Env, path string, width int) nn.Norm {
	switch s.Norm {
	case "batch":
		return nn.NewBatchNorm(e.Params, path, width)
	case "layer":
		return nn.NewLayerNorm(e.Params, path, width)
	case "graph":
		return nn.NewGraphNorm(e.Params, path, width)
	case "pair":
		return nn.NewPairNorm(width)
	}
	return nil
}

// norms makes the norms inside a convolution.
func (s *Spec) norms(e Env) func(path string, width int) nn.Norm {
	return func(path string, width int) nn.Norm { return s.norm(e, path, width) }
}

func (s *Spec) both(k ModelKind) bool { return s.Direction == "both" && k.Uses("direction") }

// path returns the module path of layer i.
func (k ModelKind) path(i int) string { return fmt.Sprintf("%s.%d", k.list, i) }

// Widths returns the numbers of features and classes of the model that the weights belong to; each is 0 if
// its weight is missing.
func (s Spec) Widths(weights nn.State) (features, classes int) {
	kind, known := KindOf(s.Model)
	if !known {
		return 0, 0
	}
	if s.decouples(kind) && kind.relations == nil {
		s = s.perceptron()
		kind, _ = KindOf(s.Model)
	}
	s.Layers = s.Depth()
	first, last := kind.path(0)+kind.weight, kind.path(s.Layers-1)+kind.bias
	switch d := s.made(kind); {
	case d != nil:
		first, last = d.encoder+".weight", d.decoder+".bias"
	case s.both(kind):
		first, last = kind.path(0)+".conv_in"+kind.weight, kind.path(s.Layers-1)+".lin.bias"
	}
	if s.jumps(kind) {
		last = "lin.bias"
	}
	if w, ok := weights[first]; ok && len(w.Shape) == 2 {
		features = w.Shape[1] / cmp.Or(kind.reads, 1)
	}
	b, ok := weights[last]
	if path := kind.path(s.Layers-1) + "."; !ok { // of a relation
		for name, w := range weights {
			rest, bias := strings.CutSuffix(name, kind.bias)
			_, linear := weights[rest+".weight"] // the bias of a linear map is not that of the layer
			if bias && strings.HasPrefix(name, path) && (!linear || kind.bias != ".bias") {
				b, ok = w, true
			}
		}
	}
	if ok && len(b.Shape) == 1 {
		classes = b.Shape[0]
	}
	return features, classes
}

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
