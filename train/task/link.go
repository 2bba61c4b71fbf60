package task

import (
	"math"
	"slices"

	"weft/autograd"
	"weft/comm/launch"
	"weft/graph"
	"weft/internal/refusal"
	"weft/nn"
	"weft/parallel/links"
	"weft/partition"
	"weft/tensor"
	"weft/train/metric"
)

// The decoders: dot is h_u·h_v; DistMult has a weight for each relation and column; MLP is gnn.EdgeDecoder.
const (
	dot      = "dot"
	DistMult = "distmult"
	MLP      = "mlp"
)

// Decoders are the decoders of link prediction by name, the default first. The decoder of labels of edges is
// MLP.
var Decoders = []string{dot, DistMult}

// decoderWeights is the name of DistMult's weights in files.
const decoderWeights = "decoder.weight"

// Links are the results of link prediction at the best epoch.
type Links struct {
	TrainEdges int `json:"train_edges"`
	ValEdges   int `json:"val_edges"`
	TestEdges  int `json:"test_edges"`
	// Types are the vertex types whose embeddings are the predictions, one type after another; nil: the first
	// type.
	Types []LinkType `json:"types,omitempty"`
	// Val and Test are the metrics of the validation and the test edges, by name: metric.LinkNamesOf, or
	// metric.ROCAUC alone if that is the metric and the graph gives no negative edges.
	Val  map[string]metric.Number `json:"val"`
	Test map[string]metric.Number `json:"test"`
}

// LinkType is a vertex type with embeddings.
type LinkType struct {
	Type     string `json:"type"`
	Vertices int    `json:"vertices"`
}

// linkPrediction is the task of predicting which vertices an edge joins, in the relations that the options
// name, or else in every relation from the first vertex type to itself. The model's output is an embedding of
// each vertex of the types that these join. Validation and test edges pass no messages. A graph with a split
// of edges gives all of them.
type linkPrediction struct{ Goal }

// draw says how edges are drawn at random.
func (k linkPrediction) draw() *links.Draw {
	return &links.Draw{Seed: k.Seed, Shares: k.LinkSplit, Relations: k.LinkRelation.triples()}
}

func (linkPrediction) Metrics() []string { return metric.LinkNames }

func (k linkPrediction) Metric(whole *partition.Whole, _ *graph.Labels) (string, error) {
	return metric.ChooseOfEdges(k.Goal.Metric, givenIn(whole))
}

// givenIn is the form of the negative edges that a graph gives.
func givenIn(whole *partition.Whole) graph.NegativeForm {
	if len(whole.EdgeSplits) == 0 {
		return graph.NoNegatives
	}
	return whole.EdgeSplits[0].Negatives
}

func (k linkPrediction) Outputs(*partition.Whole) int { return k.OutFeatures }

func (k linkPrediction) Types(s *partition.Share) ([]int, error) {
	supervised, err := k.draw().Supervised(s)
	if err != nil || slices.Equal(supervised.Numbering.Kinds, []int{0}) {
		return nil, err
	}
	return supervised.Numbering.Kinds, nil
}

// Check refuses settings of what the graph's split of edges already gives. What only the edges tell, Begin
// checks.
func (k linkPrediction) Check(whole *partition.Whole) error {
	switch form := givenIn(whole); {
	case len(whole.EdgeSplits) > 0 && k.LinkSplit != DefaultShares:
		return refusal.Errorf("--link-split %s: the graph has a split of edges; leave it out, or import "+
			"the graph without that split", k.LinkSplit)
	case form != graph.NoNegatives && k.EvalNegatives > 0:
		return refusal.Errorf("--eval-negatives %d: the graph's split gives the negative edges; leave it out",
			k.EvalNegatives)
	}
	return nil
}

func (linkPrediction) CheckMeasured(*partition.Whole) error {
	return refusal.Errorf("--validate: validates labels of vertices, and --task %s holds out edges of its "+
		"own graph; leave it out", Link)
}

func (k linkPrediction) Passing(*partition.Whole) (training, later *partition.Subgraph, err error) {
	return partition.EdgeSubgraph(k.draw().Passes), nil, nil
}

func (linkPrediction) Predicts(params *nn.Params, _ nn.State) func(*tensor.Matrix) {
	params.Allow(decoderWeights) // predictions are embeddings
	return nil
}

func (k linkPrediction) Begin(e Env) (Task, error) {
	edges, err := k.edges(e)
	if refusal.Is(err) {
		err = &launch.Common{Err: err}
	}
	if err != nil {
		return nil, err
	}
	l := &linkTask{Env: e, goal: k.Goal, edges: edges}
	if l.types, err = k.typesIn(e.Share); err != nil {
		return nil, err
	}
	if !l.any(links.Train) && l.stored() {
		return nil, &launch.Common{Err: refusal.Graph.Errorf("the graph's split of edges has none to train "+
			"on: --task %s learns those; import the graph with some, or without that split", Link)}
	}
	if !l.any(links.Train) {
		return nil, &launch.Common{Err: refusal.Graph.Errorf("the graph has no edges to train on: --task "+
			"%s learns those between different vertices of its only type, or of the type that has labels, "+
			"or of the relations that --link-relation names, and --link-split %s divides them", Link,
			k.LinkSplit)}
	}
	if k.Decoder == DistMult {
		p := e.Params.Matrix(decoderWeights, edges.Relations(), k.OutFeatures,
			nn.Glorot(edges.Relations(), k.OutFeatures))
		l.decoder = links.Decoder{Weights: p.Value, Grad: p.Grad}
	}
	l.metric, err = k.Metric(&e.Share.Whole, nil)
	return l, err
}

// typesIn describes the vertex types of Types.
func (k linkPrediction) typesIn(s *partition.Share) (all []LinkType, err error) {
	kinds, err := k.Types(s)
	for _, kind := range kinds {
		t := s.Whole.Types[kind]
		all = append(all, LinkType{t.Type, t.Vertices})
	}
	return all, err
}

// edges are the supervision edges of a worker.
func (k linkPrediction) edges(e Env) (*links.Edges, error) {
	return links.New(e.Team, e.World, e.Share, e.Vertices,
		links.Options{Draw: *k.draw(), RankAmong: k.EvalNegatives, Fetches: e.Fetches})
}

// Fetches returns the rows that workers fetch from each other to score the training edges of an epoch and, if
// partitions take turns, the edges of an evaluation. It returns nil unless the task is link prediction. All
// workers call it together. e needs no parameters.
func Fetches(k Kind, e Env, epoch int, takesTurns bool) (*links.Fetches, error) {
	linkKind, scores := k.(linkPrediction)
	if !scores {
		return nil, nil
	}
	edges, err := linkKind.edges(e)
	if err != nil {
		return nil, err
	}
	return edges.Fetches(epoch, linkKind.OutFeatures, linkKind.Negatives, takesTurns)
}

// MeasureLinks measures embeddings of the vertices that the task predicts, rows × columns in the order of the
// graph, by every metric that the graph's negative edges define. k is link prediction. e is one worker that
// has the whole graph. weights may have the decoder's.
func MeasureLinks(k Kind, e Env, embeddings []float32, weights nn.State) (*Links, error) {
	made, err := k.Begin(e)
	if err != nil {
		return nil, err
	}
	l := made.(*linkTask)
	if n := l.edges.Vertices(); len(embeddings) != n*l.goal.OutFeatures {
		return nil, refusal.Errorf("%d numbers of embeddings, where %d columns of %d vertices are measured",
			len(embeddings), l.goal.OutFeatures, n)
	}
	decoder := nn.State{}
	if w, there := weights[decoderWeights]; there && l.decoder.Weights != nil {
		decoder[decoderWeights] = w
	}
	if err := e.Params.Load(decoder); err != nil {
		return nil, err
	}
	h := e.Team.Memory.New(tensor.Activations, len(embeddings)/l.goal.OutFeatures, l.goal.OutFeatures)
	defer h.Release()
	copy(h.Floats(), embeddings)
	return l.report(h, metric.LinkNamesOf(l.edges.Negatives)...)
}

// linkTask is link prediction on a worker.
type linkTask struct {
	Env
	goal    Goal
	metric  string
	edges   *links.Edges
	types   []LinkType
	decoder links.Decoder
}

// any reports whether any worker has edges of a part. A plan counts only its own worker's, and assumes that
// others have some if the settings allow it.
func (l *linkTask) any(part links.Part) bool {
	others := l.World.Size() > 1 && (l.stored() || l.goal.LinkSplit[part] > 0)
	l.Team.Serial(func() { others = false }) // in a run all are counted
	return others || l.edges.Counts[part] > 0
}

// stored reports whether the graph has a split of edges.
func (l *linkTask) stored() bool { return len(l.Share.Whole.EdgeSplits) > 0 }

func (l *linkTask) Metric() string { return l.metric }

func (l *linkTask) Loss(epoch int, embeddings *autograd.Var) (func() float64, *tensor.Matrix) {
	return known(l.edges.Loss(embeddings.Value(), l.decoder, epoch, l.goal.Negatives))
}

func (l *linkTask) Measuring(embeddings *autograd.Var) Measuring {
	return Measuring{
		Loss: func([]float64) float64 {
			return l.edges.LossOf(l.edges.Scores(embeddings.Value(), l.decoder, links.Val), links.Val)
		},
		Measure: func([]float64) (metric.Scores, error) { return l.measure(embeddings.Value()) },
	}
}

func (l *linkTask) Validates() bool { return l.any(links.Val) }

func (l *linkTask) HasValidationLoss() bool { return l.Validates() }

func (*linkTask) OneClass() bool { return false }

func (*linkTask) Predict(*tensor.Matrix) {}

// measure leaves out the training edges, as the model has seen them.
func (l *linkTask) measure(embeddings *tensor.Matrix) (s metric.Scores, err error) {
	s.Train = math.NaN()
	for _, part := range []struct {
		links.Part
		to *float64
	}{{links.Val, &s.Val}, {links.Test, &s.Test}} {
		measured, err := l.measures(embeddings, part.Part, l.metric)
		if err != nil {
			return s, err
		}
		*part.to = float64(measured[l.metric])
	}
	return s, nil
}

func (l *linkTask) Report(embeddings *tensor.Matrix) (*Links, error) {
	// The metric alone is no reason to rank, as that may take longer.
	if l.metric == metric.ROCAUC && l.edges.Negatives == graph.NoNegatives {
		return l.report(embeddings, metric.ROCAUC)
	}
	return l.report(embeddings, metric.LinkNamesOf(l.edges.Negatives)...)
}

// report measures embeddings by some metrics.
func (l *linkTask) report(embeddings *tensor.Matrix, names ...string) (r *Links, err error) {
	n := l.edges.Counts
	r = &Links{TrainEdges: n[links.Train], ValEdges: n[links.Val], TestEdges: n[links.Test], Types: l.types}
	if r.Val, err = l.measures(embeddings, links.Val, names...); err != nil {
		return nil, err
	}
	r.Test, err = l.measures(embeddings, links.Test, names...)
	return r, err
}

// measures are some metrics of a part's edges, by name. They are NaN without edges. A plan has no values.
func (l *linkTask) measures(embeddings *tensor.Matrix, part links.Part,
	names ...string,
) (map[string]metric.Number, error) {
	e, measured := l.edges, map[string]metric.Number{}
	put := func(values []float64, names []string) {
		for i, x := range values {
			measured[names[i]] = metric.Number(x)
		}
	}
	hasArea := slices.Contains(names, metric.ROCAUC)
	area := func(n int, at func(i int) (score float64, positive bool)) error {
		area, err := metric.AreaUnder(l.World, n, at)
		put([]float64{area}, []string{metric.ROCAUC})
		return err
	}
	rank := func(ranks []float64, names []string) error {
		means, err := metric.OfRanks(l.World, ranks, e.Counts[part], names)
		put(means, names)
		return err
	}
	switch e.Negatives {
	case graph.SharedNegatives: // each edge against the negative edges that all share
		edges, negatives, _ := e.GivenScores(embeddings, l.decoder, part)
		if hasArea {
			err := area(len(edges)+len(negatives), func(i int) (float64, bool) {
				if i < len(edges) {
					return float64(edges[i]), true
				}
				return float64(negatives[i-len(edges)]), false
			})
			if err != nil {
				return nil, err
			}
		}
		others := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == metric.ROCAUC })
		hits, err := metric.HitsAbove(l.World, edges, negatives, others)
		put(hits, others)
		return measured, err
	case graph.TargetNegatives: // each edge among its own negative targets
		edges, negatives, perEdge := e.GivenScores(embeddings, l.decoder, part)
		ranks := make([]float64, len(edges))
		for i, score := range edges {
			ranks[i] = metric.RankOf(score, negatives[i*perEdge:(i+1)*perEdge])
		}
		return measured, rank(ranks, names)
	}
	if hasArea {
		scores := e.Scores(embeddings, l.decoder, part) // each followed by the score of a negative edge
		err := area(len(scores), func(i int) (float64, bool) { return float64(scores[i]), i%2 == 0 })
		if err != nil {
			return nil, err
		}
	}
	ranked := metric.Ranked(names)
	if len(ranked) == 0 {
		return measured, nil
	}
	return measured, rank(e.Ranks(embeddings, l.decoder, part), ranked)
}
