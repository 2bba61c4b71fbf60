package inference

import (
	"context"
	"slices"

	"github.com/spf13/pflag"

	"weft/cmd/weft/internal/data"
	"weft/cmd/weft/internal/session"
	"weft/graph"
	"weft/graph/appended"
	"weft/graph/tables"
	"weft/internal/refusal"
	"weft/nn"
	"weft/train"
)

// addedGiven is what is added to a graph for a prediction alone.
type addedGiven struct {
	tables.Options
	since string   // the store before an addition that the graph has; empty: none
	later string   // the later graph, in place of which since is opened
	new   []string // the names of the new vertices, once they have been read
}

// add declares the flags.
func (o *addedGiven) add(flags *pflag.FlagSet) {
	data.AdditionFlags(flags, &o.Options)
	flags.StringVar(&o.since, "since", "", "the `store` before an addition that the graph has: as "+
		"--add-vertices and --add-edges, for what it has besides")
}

// tabled reports whether tables have the additions.
func (o *addedGiven) tabled() bool { return len(o.Vertices)+len(o.Edges) > 0 }

// there reports whether vertices or edges are added to the graph.
func (o *addedGiven) there() bool { return o.tabled() || o.since != "" }

// files are the tables.
func (o *addedGiven) files() []string {
	files := slices.Clone(o.Edges)
	for _, argument := range o.Vertices {
		_, path := tables.Named(argument)
		files = append(files, path)
	}
	return files
}

// names are the names of the graph's vertices, followed by the new ones.
func (o *addedGiven) names(g *graph.Graph) []string {
	if len(o.new) == 0 {
		return g.Types[0].Names
	}
	return slices.Concat(g.Types[0].Names, o.new)
}

// to is the graph to which things are added, if graph is asked for.
func (o *addedGiven) to(graph string) string {
	if o.since == "" {
		return graph
	}
	o.later = graph
	return o.since
}

// check refuses flags of tables that are not given. elsewhere says that flags of edges are for another list.
func (o *addedGiven) check(elsewhere bool) error {
	if o.since != "" && o.tabled() {
		return refusal.Errorf("--since %s: the store has what is added; leave --add-vertices and "+
			"--add-edges out",
			o.since)
	}
	if elsewhere || !o.there() {
		return nil
	}
	return data.CheckEdgeFlags(&o.Options)
}

// read reads what is added to a graph: tables, or what a later store has in addition.
func (o *addedGiven) read(g *appended.Base) (a *appended.Addition, err error) {
	if o.since == "" {
		return tables.Add(o.Options, g.Graph)
	}
	later, err := graph.Open(o.later)
	if err != nil {
		return nil, err
	}
	defer later.Close()
	err = later.Guard(func() (err error) {
		if a, err = g.Until(later); err != nil {
			err = refusal.Errorf("--since %s: %s is not that store with an addition: %w",
				o.since, o.later, err)
		}
		return err
	})
	return a, err
}

// append returns the query of the graph with its additions: of its new vertices, or of the vertices that can
// change.
func (p *predictCommand) append(ctx context.Context, s *session.Session, weights nn.State) (
	query train.Query, err error,
) {
	g, err := s.Job.Base()
	if err != nil {
		return query, err
	}
	if trained := s.Job.Columns(); trained != nil {
		p.added.Like = &tables.Like{Columns: trained}
	}
	err = g.Guard(func() error {
		added, err := p.added.read(g)
		if err != nil {
			return err
		}
		if query.Appended, err = g.With(added); err != nil {
			return err
		}
		p.added.new = added.Types[0].Names
		for v := g.Types[0].Count; v < query.Appended.Counts[0]; v++ {
			query.Vertices = append(query.Vertices, int32(v))
		}
		if len(query.Vertices) == 0 && p.vertices == "" && !p.changed {
			return refusal.Errorf("--add-edges: no vertex is new; name those to predict with --vertices, " +
				"or predict all that can differ with --changed")
		}
		return nil
	})
	if err == nil && p.changed {
		p.added.Progress("finding the vertices that can differ", 0, 0)
		query.Vertices, err = findChanged(ctx, s, query, weights)
	}
	return query, err
}
