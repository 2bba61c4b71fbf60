package gnn

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"weft/internal/refusal"
	"weft/nn"
)

// The blocks of a model that is known by name.

// Blocks describes a model known by name: Layers convolutions, of which the last has classes columns and the
// others Hidden columns, with norm, activation and dropout between them. Parameters have PyG's names
// (torch_geometric.nn.models). A decoupled model is the model mlp with so many layers, and then a block with
// the rounds. Decoupled R-GCN has layers of its own instead, of which only the last has relations. A deep
// model has a block before the Layers and a block after them. On a graph with several types of vertices or
// edges, a layer has a convolution for each relation, and the names of PyG's to_hetero. Blocks refuses
// settings that the graph does not allow.
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

// layers describes the layers of a model. edge is the number of columns of the edges' features. In a jumping
// knowledge network all layers have the hidden width, and a linear layer follows them.
func (s Spec) layers(kind ModelKind, features, edge, classes int) (specs []BlockSpec) {
	in, jumps := s.read(features), s.jumps(kind)
	for i := range s.Layers {
		last := i == s.Layers-1 && !jumps
		b := BlockSpec{In: in, Out: s.Hidden, EdgeFeatures: s.readsEdges(kind), Degrees: kind.degrees}
		if last {
			b.Out = classes
		}
		b.Cost, b.OwnPass = s.cost(kind, b.In, b.Out, edge, last), s.ownPassOf(kind, i, last)
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

// read returns how many columns the first block reads: the columns of the features or, without features, of
// the embedding.
func (s *Spec) read(features int) int { return cmp.Or(features, s.NodeEmbedding) }

// embedding makes the embedding of vertices of type i that have no features; nil: the type has features.
func (s *Spec) embedding(i int, e Env) *nn.Param {
	typ := e.Types[i]
	if s.NodeEmbedding == 0 || typ.Columns > 0 {
		return nil
	}
	return e.Params.Table("embed."+typ.Name+".weight", e.Rows[i], 0, s.NodeEmbedding, nn.Normal())
}

// decoupled describes the decoupled form of a model. Its MLP has the initial values of GCN's layers.
// PyTorch's are smaller, and with them a deep MLP without a norm does not learn.
func (s Spec) decoupled(kind ModelKind, features, classes int) []BlockSpec {
	transform := s.perceptron()
	mlp, _ := KindOf(transform.Model)
	mlp.convolution = func(_ *Spec, at Module, _ bool) Convolution {
		return newLinear(at, nn.Glorot(at.In, at.Out), nn.Constant(0))
	}
	specs := transform.layers(mlp, features, 0, classes)
	b := BlockSpec{In: classes, Out: classes, Cost: Cost{Edge: s.Rounds * classes}, Rounds: s.Rounds}
	if s.Uses("attention-dropout") {
		b.Cost.Vertex = 2 * classes // two scores
		b.OwnPass = s.ownPass("attention-dropout")
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

// ownPass returns those of some settings for BlockSpec.OwnPass that the model uses and that are on.
func (s *Spec) ownPass(settings ...string) []string {
	on := map[string]bool{
		"dropout": s.Dropout > 0, "input-dropout": s.InputDropout > 0,
		"attention-dropout": s.AttentionDropout > 0,
		"transform-dropout": s.TransformDropout > 0, "norm": s.Norm == "batch",
	}
	return slices.DeleteFunc(settings, func(name string) bool { return !on[name] || !s.Uses(name) })
}

// ownPassOf is BlockSpec.OwnPass of layer i. The last computes the logits.
func (s *Spec) ownPassOf(kind ModelKind, i int, last bool) []string {
	settings := []string{"attention-dropout", "transform-dropout"}
	if i == 0 {
		settings = append(settings, "input-dropout")
	}
	if !last {
		settings = append(settings, "dropout")
	}
	if !last || kind.innerNorm {
		settings = append(settings, "norm")
	}
	return s.ownPass(settings...)
}

// perceptron returns the MLP before the rounds of a decoupled model.
func (s Spec) perceptron() Spec {
	s.Model, s.Decoupled, s.BlockForm = "mlp", false, BlockForms[0]
	return s
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

// hidden adds to t, the part of layer i for a vertex type, the parts that follow the convolution of a hidden
// layer: a norm of so many columns with the module path norm, the activation, dropout keyed by path, and the
// residual connection.
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

// path returns the module path of layer i.
func (k ModelKind) path(i int) string { return fmt.Sprintf("%s.%d", k.list, i) }

// Widths returns the numbers of features and classes of the model that the weights belong to. Each is 0 if
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
