package inference

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"weft/cmd/weft/internal/session"
	"weft/cmd/weft/internal/ui"
	"weft/graph"
	"weft/graph/appended"
	"weft/graph/tables"
	"weft/internal/refusal"
	"weft/partition"
	"weft/train"
	"weft/train/predictions"
	"weft/train/setting"
	"weft/train/task"
)

// edgeTable says what rows of the edges that a goal learns stand for: the graph's own edges. It returns the
// edges' relation.
func edgeTable(g *graph.Graph, goal *task.Goal) (r *graph.Relation, rows *predictions.EdgeEnds, err error) {
	if r = g.Relation(goal.Target(g)); r == nil {
		return nil, nil, refusal.Graph.Errorf("its edges have no labels %s, which the run has learned; give the "+
			"store that it was trained on", goal.EdgeLabel)
	}
	if len(r.Sources) > math.MaxInt32 {
		return nil, nil, refusal.Errorf("%d edges, and a table has at most %d", len(r.Sources), math.MaxInt32)
	}
	rows = endsOf(g, r)
	rows.Ends = func(edge int) [2]int32 {
		source, target := r.EndsOf(int64(edge))
		return [2]int32{source, target}
	}
	return r, rows, nil
}

// endsOf says how a table names the ends of a relation's edges.
func endsOf(g *graph.Graph, r *graph.Relation) *predictions.EdgeEnds {
	rows := &predictions.EdgeEnds{Columns: r.EndColumns}
	source, target, _ := g.Joins(r) // the graph has passed Check
	for k, kind := range []int{source, target} {
		rows.Names[k] = g.Types[kind].Names
		if name := rows.Columns[k]; name == "" || predictions.Reserved(name) {
			rows.Columns[k] = []string{"source", "target"}[k]
		}
	}
	return rows
}

// checkEdges refuses flags that are for predictions of vertices.
func (p *predictCommand) checkEdges() error {
	switch {
	case p.vertices != "":
		return refusal.Errorf("--vertices %s: the model predicts edges, and computes the rows of all vertices; "+
			"leave it out", p.vertices)
	case p.changed || p.added.since != "":
		return refusal.Errorf("--changed and --since: compare predictions of vertices, and the model predicts " +
			"edges; leave them out")
	case len(p.added.Vertices) > 0 && len(p.added.Edges) == 0:
		return refusal.Errorf("--add-vertices %s: the model predicts edges; give those of the new vertices with "+
			"--add-edges", p.added.Vertices[0])
	case p.bare && filepath.Ext(p.files.out) == ".npy":
		return refusal.Errorf("--unlabelled: the rows of a matrix have no numbers of edges; leave it out, or write " +
			"a .csv or .parquet")
	case p.added.there() && p.bare:
		return refusal.Errorf("--unlabelled: the edges of --add-edges have no labels; leave it out")
	}
	return nil
}

// newEdges reads the edges to score, from --add-edges. Neither they nor their reverse edges pass messages,
// unless the run was asked for that. The new vertices of --add-vertices, and edges of other relations, are
// there when they are scored. It refuses ends that are no vertices.
func (p *predictCommand) newEdges(notes io.Writer, s *session.Session, shown *ui.Phases) error {
	if !p.added.there() {
		return nil
	}
	g, err := s.Graph()
	if err != nil {
		return err
	}
	if trained := s.Job.Columns(); trained != nil {
		p.added.Like = &tables.Like{Columns: trained}
	}
	whole := partition.WholeOf(g)
	r, err := s.Job.Options.Resolve()
	if err != nil {
		return err
	}
	relation, err := task.RelationOf(r.Kind, &whole)
	if err != nil {
		return err
	}
	p.added.Progress, p.added.Learned = shown.Show, g.Relations[relation].Name
	if !s.Job.Options.NewEdgesPass() {
		p.added.Scored = p.added.Learned
	}
	return g.Guard(func() error {
		a, err := tables.Add(p.added.Options, g)
		shown.Erase()
		if err != nil {
			return err
		}
		if len(p.added.Vertices) == 0 {
			if err := p.checkEnds(g, a); err != nil {
				return err
			}
		}
		say(notes, "note", a.Reversed)
		say(notes, "warning", a.Notes)
		if p.edges = &a.Edges[relation]; p.edges.Len() == 0 {
			return refusal.Errorf("--add-edges %s: has no edge of the relation whose labels were learned",
				p.added.Edges[0])
		}
		return p.besides(s.Job, r, g, a, relation)
	})
}

// checkEnds refuses new edges with an end that is no vertex of the graph. It says how many edges of the lists
// have such an end, and which ends.
func (p *predictCommand) checkEnds(g *graph.Graph, a *appended.Addition) error {
	var unknown []string
	for _, rows := range a.Types {
		for _, name := range rows.Names {
			unknown = append(unknown, fmt.Sprintf("%.40q", name))
		}
	}
	if unknown == nil {
		return nil
	}
	all, without := 0, 0
	for i := range a.Edges {
		if a.IsReversed(i) { // these edges are in no list
			continue
		}
		source, target, err := g.Joins(&g.Relations[i])
		if err != nil {
			return err
		}
		sources, targets := int32(g.Types[source].Count), int32(g.Types[target].Count)
		for k, u := range a.Edges[i].Source {
			if all++; u >= sources || a.Edges[i].Target[k] >= targets {
				without++
			}
		}
	}
	return refusal.Errorf("%s: %d of %s: an end is no vertex of the graph, between whose vertices new edges are scored: "+
		"%s; give rows of these with --add-vertices, or leave the edges out", strings.Join(p.added.Edges, ", "), without,
		ui.Counted(all, "edge", "edges"), refusal.List(unknown, 5))
}

// besides has the job predict on a graph with its additions, if there are any. It leaves out the edges of the
// learned relation and their reverse edges if these pass no messages.
func (p *predictCommand) besides(job *train.Job, r *setting.Resolved, g *graph.Graph, a *appended.Addition,
	relation int,
) error {
	passes := func(i int) bool {
		learned := i == relation || g.Relations[i].Mirrors(&g.Relations[relation])
		return (job.Options.NewEdgesPass() || !learned) && a.Edges[i].Len() > 0
	}
	there := false
	for _, rows := range a.Types {
		p.newNames, there = append(p.newNames, rows.Names), there || rows.Count > 0
	}
	for i := range a.Edges {
		there = there || passes(i)
	}
	switch {
	case !there:
		return nil
	case r.Workers > 1:
		return refusal.Errorf("--add-edges %s: new vertices, and edges that pass messages, are for one worker; give "+
			"--parallel graph=1", p.added.Edges[0])
	case r.OverAll() != "":
		return refusal.Errorf("--add-edges %s: %s takes its mean over all vertices, and new ones, or edges that pass "+
			"messages, would change it; leave these out, or train with another norm", p.added.Edges[0], r.OverAll())
	}
	b, err := job.Base()
	if err != nil {
		return err
	}
	passing := *a
	passing.Edges = b.Nothing().Edges
	for i := range a.Edges {
		if passes(i) {
			passing.Edges[i] = a.Edges[i]
		}
	}
	with, err := b.With(&passing)
	if err != nil {
		return err
	}
	job.Query = train.Query{Appended: with}
	return nil
}

// ofEdges has the table say what the model has learned about edges: new ones, or the graph's.
func (d *predicted) ofEdges(p *predictCommand, asked *predictRequest) (err error) {
	if p.files.embeddings != "" || slices.Contains(d.Answers, predictions.Hidden) {
		return refusal.Errorf("embeddings are of vertices, and the model predicts edges; leave --embeddings and the " +
			"column embedding out")
	}
	var r *graph.Relation
	if r, d.Edges, err = edgeTable(d.graph, &asked.Options.Goal); err != nil {
		return err
	}
	d.target = asked.Options.Target(d.graph)
	d.Names, d.Types = nil, nil
	if e := p.edges; e != nil {
		d.Edges.Added = true
		d.Edges.Ends = func(k int) [2]int32 { return [2]int32{e.Source[k], e.Target[k]} }
		source, target, _ := d.graph.Joins(r)
		for k, kind := range []int{source, target} {
			d.Edges.Names[k] = slices.Concat(d.Edges.Names[k], p.newNames[kind])
		}
	}
	d.bare = p.bare
	return nil
}

// scores has a table of edges give a score for each class, unless other answers are asked for.
func (d *predicted) scores() {
	if d.Edges != nil && d.Answers == nil && d.Columns == predictions.Logits {
		d.Answers = []predictions.Answer{predictions.Class, predictions.AllProbabilities}
	}
}

// likeliestFirst orders a table of new edges in two classes by the probability of the second class, the
// largest first, unless another order is asked for. It refuses --top without an order.
func (d *predicted) likeliestFirst() error {
	added := d.Edges != nil && d.Edges.Added
	if added && d.Order.By == "" && d.Columns == predictions.Logits && d.numbers == 2 {
		d.Order.By, d.sorted = d.Probability(1, 2), true
	}
	return d.Order.Check()
}

// onlyUnlabelled leaves out rows of edges that have a label. It refuses a graph whose edges all have one.
func (d *predicted) onlyUnlabelled(rows train.Rows) (train.Rows, error) {
	for k := range d.graph.Rows(d.target) {
		if !d.graph.Frame(d.target).Labels.Labelled(int64(k)) {
			d.Vertices = append(d.Vertices, int32(k))
		}
	}
	if d.Vertices == nil {
		return rows, refusal.Errorf("--unlabelled: each of %s has a label; leave it out",
			ui.Counted(d.graph.Rows(d.target), "edge", "edges"))
	}
	each := rows.Each
	rows.Vertices = len(d.Vertices)
	rows.Each = func(yield func([]float32) bool) {
		at, next := int32(0), 0
		for batch := range each {
			var kept []float32
			for row := range slices.Chunk(batch, rows.Columns) {
				if next < len(d.Vertices) && d.Vertices[next] == at {
					kept, next = append(kept, row...), next+1
				}
				at++
			}
			if !yield(kept) {
				return
			}
		}
	}
	return rows, nil
}
