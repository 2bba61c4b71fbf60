package inference

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"weft/cmd/weft/internal/ui"
	"weft/graph"
	"weft/graph/appended"
	"weft/internal/refusal"
	"weft/train"
	"weft/train/predictions"
	"weft/train/setting"
)

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

// scored is the query of new edges. Neither they nor their reverse edges pass messages, unless the run was
// asked for that. New vertices, and edges of other relations, are there when they are scored.
func (p *predictCommand) scored(job *train.Job, r *setting.Resolved, g *graph.Graph, a *appended.Addition,
	relation int,
) (query train.Query, err error) {
	if query.Edges = &a.Edges[relation]; query.Edges.Len() == 0 {
		return query, refusal.Errorf("--add-edges %s: has no edge of the relation whose labels were learned",
			p.added.Edges[0])
	}
	passing := *a
	passing.Edges = slices.Clone(a.Edges)
	more := slices.ContainsFunc(a.Types, func(rows appended.NewVertices) bool { return rows.Count > 0 })
	for i := range passing.Edges {
		learned := i == relation || g.Relations[i].Mirrors(&g.Relations[relation])
		if learned && !job.Options.NewEdgesPass() {
			passing.Edges[i] = graph.Edges{FeatureColumns: a.Edges[i].FeatureColumns}
		}
		more = more || passing.Edges[i].Len() > 0
	}
	switch {
	case !more:
		return query, nil
	case r.Workers > 1:
		return query, refusal.Errorf("--add-edges %s: new vertices, and edges that pass messages, are for one worker; "+
			"give --parallel graph=1", p.added.Edges[0])
	case r.OverAll() != "":
		return query, refusal.Errorf("--add-edges %s: %s takes its mean over all vertices, and new ones, or edges that "+
			"pass messages, would change it; leave these out, or train with another norm", p.added.Edges[0], r.OverAll())
	}
	b, err := job.Base()
	if err == nil {
		query.Appended, err = b.With(&passing)
	}
	return query, err
}

// ofEdges has the table say what the model has learned about edges: new ones, or the graph's.
func (d *predicted) ofEdges(p *predictCommand) error {
	if p.files.embeddings != "" || slices.Contains(d.Answers, predictions.Hidden) {
		return refusal.Errorf("embeddings are of vertices, and the model predicts edges; leave --embeddings and the " +
			"column embedding out")
	}
	if e := d.opened.Job.Edges; e != nil {
		d.Edges.Added = true
		d.Edges.Ends = func(k int) [2]int32 { return [2]int32{e.Source[k], e.Target[k]} }
		source, target, _ := d.graph.Joins(d.graph.Relation(d.target))
		for k, kind := range []int{source, target} {
			d.Edges.Names[k] = p.added.names(d.graph, kind)
		}
	}
	d.bare = p.bare
	return nil
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
func (d *predicted) onlyUnlabelled(rows train.Rows) (_ train.Rows, err error) {
	if d.Vertices, err = unlabelled(d.graph, d.target, nil); err != nil {
		return rows, err
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
