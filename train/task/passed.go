package task

import (
	"cmp"
	"slices"

	"weft/graph"
	"weft/graph/appended"
	"weft/internal/refusal"
	"weft/partition"
)

// Which edges pass messages if labels of edges are learned: all, or those of earlier periods of a split by
// time. PassAuto is PassEarlier with such a split, and otherwise PassAll.
const (
	PassAuto    = "auto"
	PassAll     = "all"
	PassEarlier = "earlier"
)

// PassesMessages lists these words.
var PassesMessages = []string{PassAuto, PassAll, PassEarlier}

// NewEdgesPass reports whether new edges pass messages to each other when they are scored: they do for a run
// with PassAll.
func (g *Goal) NewEdgesPass() bool { return g.PassMessages == PassAll }

// The periods of a split by time.
const (
	trains = iota
	validates
	tests
)

// Passed says which edges passed messages in the training of labels of edges.
type Passed struct {
	Messages string `json:"messages"`       // PassAll or PassEarlier
	Rule     string `json:"rule,omitempty"` // of a split by time, as graph.SplitBy has it; "": there was none
}

// AsPassed has edges pass messages as they did in a run, if PassMessages is PassAuto. With run nil they do so
// as the graph at hand says.
func (g *Goal) AsPassed(run *Passed) { g.passed = run }

// PassedOf says which edges pass messages if a kind of task learns labels of edges; nil: it learns none.
func PassedOf(k Kind, whole *partition.Whole) *Passed {
	rows, learns := k.(labelPrediction)
	if !learns || rows.kind != graph.EdgeRows {
		return nil
	}
	p := &Passed{Messages: rows.PassMessages}
	if l, err := rows.labelled(whole); err == nil {
		p.Rule = l.Rule
	}
	switch {
	case p.Messages != PassAuto:
	case rows.passed != nil:
		p.Messages = rows.passed.Messages
	case p.Rule != "":
		p.Messages = PassEarlier
	default:
		p.Messages = PassAll
	}
	return p
}

// PassesEarlier reports whether a kind of task learns labels of edges with PassEarlier.
func PassesEarlier(k Kind, whole *partition.Whole) bool {
	p := PassedOf(k, whole)
	return p != nil && p.Messages == PassEarlier
}

// Passing implements Kind. With PassEarlier, training and validation edges are scored over the graph of the
// edges of the training period. Test edges are scored over the graph of all edges before the test period.
// Edges need no labels to be in these graphs.
func (k labelPrediction) Passing(whole *partition.Whole) (training, later *partition.Subgraph, err error) {
	switch p := PassedOf(k, whole); {
	case p == nil, p.Messages == PassAll:
		return nil, nil, nil
	case p.Rule != "":
		return k.until(trains), k.until(validates), nil
	case k.passed == nil:
		return nil, nil, refusal.Errorf("--pass-messages %s: the edges are not divided by time; give --split "+
			"time:COLUMN=2024-01-01,2024-02-01, or leave it out", PassEarlier)
	}
	return nil, nil, refusal.Graph.Errorf("its edges are not divided by time, and in the run they passed messages to "+
		"later ones alone; import it with --split %s", cmp.Or(k.passed.Rule, "time:COLUMN=2024-01-01,2024-02-01"))
}

// until is the graph of the edges of all periods up to last. The scored edges are a relation that passes no
// messages.
func (k labelPrediction) until(last uint8) *partition.Subgraph {
	passes := partition.EdgeSubgraph(func(s *partition.Share, use func(partition.Rule) error) error {
		labelled, err := k.relation(&s.Whole)
		if err != nil {
			return err
		}
		return s.ReadRelations(func(all []graph.Relation) error {
			periods, err := periodsOf(&all[labelled])
			if err != nil {
				return err
			}
			return use(passesUntil(last, all, labelled, periods, nil))
		})
	})
	passes.Silent = func(s *partition.Share) (int, error) { return k.relation(&s.Whole) }
	return passes
}

// passesUntil accepts the edges of a relation that are of periods up to last. An edge of the reverse relation
// passes messages if its edge does; without an edge it passes none. Other relations keep all edges. gone are
// edges that the relation has lost.
func passesUntil(last uint8, all []graph.Relation, labelled int, periods []uint8, gone []appended.Edge,
) partition.Rule {
	r := &all[labelled]
	passes := func(source, target int32, before int) bool {
		if int(target) >= len(r.Indptr)-1 {
			return false
		}
		first := r.Indptr[target]
		sources := r.Sources[first:r.Indptr[target+1]]
		at, _ := slices.BinarySearch(sources, source)
		for n := 0; len(gone) > 0 && n <= before && at+n < len(sources); n++ {
			if slices.Contains(gone, appended.Edge{Source: source, Target: target, Before: n}) {
				before++
			}
		}
		at += before
		// The reverse relation may have further edges, of no known period.
		there := at < len(sources) && sources[at] == source
		return there && periods[first+int64(at)] <= last
	}
	return func(relation int) func(source, target int32, before int) bool {
		switch {
		case relation == labelled:
			return passes
		case all[relation].Mirrors(r):
			return func(source, target int32, before int) bool { return passes(target, source, before) }
		}
		return nil
	}
}

// Scoring says over which graph each edge of a relation is scored.
type Scoring struct {
	g        *graph.Graph
	labelled int     // the number of the edges' relation
	periods  []uint8 // periods of the edges; nil: all are scored over the whole graph
}

// ScoringOf says over which graphs the edges are scored that a kind of task learns. It refuses a graph that
// does not tell.
func ScoringOf(k Kind, g *graph.Graph) (*Scoring, error) {
	whole := partition.WholeOf(g)
	rows, learns := k.(labelPrediction)
	if !learns || !PassesEarlier(k, &whole) {
		return &Scoring{}, nil
	}
	if _, _, err := k.Passing(&whole); err != nil {
		return nil, err
	}
	labelled, err := rows.relation(&whole)
	if err != nil {
		return nil, err
	}
	periods, err := periodsOf(&g.Relations[labelled])
	if err != nil {
		return nil, err
	}
	return &Scoring{g, labelled, periods}, nil
}

// ScoredOver is one of the graphs over which edges are scored.
type ScoredOver uint8

// All edges pass messages to new edges, and to all edges of a run with PassAll. To others, the edges of the
// training period do, or all edges before the test period.
const (
	OverAll ScoredOver = iota
	OverTraining
	OverLater

	Overs // the number of these
)

// Over is the graph over which an edge is scored. edge is its number in the graph, or −1 for a new edge.
func (s *Scoring) Over(edge int64) ScoredOver {
	switch {
	case edge < 0 || s.periods == nil:
		return OverAll
	case s.periods[edge] == tests:
		return OverLater
	}
	return OverTraining
}

// Passes is the rule for the edges that pass messages in one of these graphs; nil: all do. The graph may be
// without some edges, by relation; nil: it has all.
func (s *Scoring) Passes(over ScoredOver, without [][]appended.Edge) partition.Rule {
	if over == OverAll {
		return nil
	}
	last := uint8(trains)
	if over == OverLater {
		last = validates
	}
	var gone []appended.Edge
	if without != nil {
		gone = without[s.labelled]
	}
	return passesUntil(last, s.g.Relations, s.labelled, s.periods, gone)
}

// periodsOf are the periods of a relation's edges.
func periodsOf(r *graph.Relation) ([]uint8, error) {
	if !r.HasLabels() || r.SplitBy == nil || r.SplitBy.Rule == "" {
		return nil, refusal.Graph.Errorf("its edges are not divided by time, and they were when it was partitioned; " +
			"import it again with that --split")
	}
	return r.Periods()
}

// Later reports which edges of a relation, given by their numbers, are scored over the later graph of
// Kind.Passing.
func Later(r *graph.Relation, numbers []int64) ([]bool, error) {
	periods, err := periodsOf(r)
	if err != nil {
		return nil, err
	}
	scoring, later := &Scoring{periods: periods}, make([]bool, len(numbers))
	for row, k := range numbers {
		later[row] = scoring.Over(k) == OverLater
	}
	return later, nil
}
