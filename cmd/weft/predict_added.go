package main

import (
	"context"
	"slices"

	"github.com/spf13/pflag"

	"weft/gnn"
	"weft/graph"
	"weft/graph/appended"
	"weft/graph/tables"
	"weft/internal/refusal"
	"weft/nn"
)

// addedGiven is what is added to a graph and not kept.
type addedGiven struct {
	tables.Options
	since string   // the store before an addition that the graph has; empty: none
	later string   // that graph, in whose place since is opened
	new   []string // the names of the new vertices, once they are read
}

// additionFlags declares the flags of tables that add to a graph.
func additionFlags(flags *pflag.FlagSet, o *tables.Options) {
	flags.StringArrayVar(&o.Vertices, "add-vertices", nil, "`file` (CSV or Parquet) of new vertices, with "+
		"the columns of the table that the store was made of; TYPE=FILE for several vertex types")
	flags.StringArrayVar(&o.Edges, "add-edges", nil, "`file` of new edges, by the ids of their ends; "+
		"RELATION=FILE for several relations")
	edgeFlags(flags, o)
}

// checkEdgeFlags refuses flags of new edges where there are none.
func checkEdgeFlags(o *tables.Options) error {
	columns := len(o.Source) + len(o.Target) + len(o.EdgeWeights) + len(o.EdgeFeatures)
	if columns == 0 || len(o.Edges) > 0 {
		return nil
	}
	return refusal.Errorf("--source, --target, --edge-weights and --edge-features name columns of new edges: " +
		"give a list of these with --add-edges")
}

// add declares the flags.
func (o *addedGiven) add(flags *pflag.FlagSet) {
	additionFlags(flags, &o.Options)
	flags.StringVar(&o.since, "since", "", "the `store` before an addition that the graph has: as "+
		"--add-vertices and --add-edges, for what it has besides")
}

// tabled reports whether tables have what is added.
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

// names are those of the vertices of the graph, and of the new ones.
func (o *addedGiven) names(g *graph.Graph) []string {
	if len(o.new) == 0 {
		return g.Names
	}
	return slices.Concat(g.Names, o.new)
}

// to is the graph to which is added, where a graph is asked for.
func (o *addedGiven) to(graph string) string {
	if o.since == "" {
		return graph
	}
	o.later = graph
	return o.since
}

// check refuses flags of tables that are not there. elsewhere: those of edges are of another list.
func (o *addedGiven) check(elsewhere bool) error {
	if o.since != "" && o.tabled() {
		return refusal.Errorf("--since %s: the store has what is added; leave --add-vertices and "+
			"--add-edges out",
			o.since)
	}
	if elsewhere || !o.there() {
		return nil
	}
	return checkEdgeFlags(&o.Options)
}

// admitsAddition refuses settings with which nothing can be added.
func (r *request) admitsAddition() error {
	switch o := r.options; {
	case o.Workers > 1:
		return refusal.Errorf("--add-vertices and --add-edges: one worker answers, and the mesh has %d; "+
			"give --parallel graph=1", o.Workers)
	case gnn.OverAll(o.Norm) && o.Uses("norm"):
		return refusal.Errorf("--add-vertices and --add-edges: --norm %s takes its mean over all "+
			"vertices, so that each addition changes every prediction; import the whole again and predict all", o.Norm)
	}
	return nil
}

// read reads what is added to a graph: tables, or what a later store has besides.
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

// append gives the job of a session the graph with what is added, of which the new vertices are predicted,
// those that can differ or those of --vertices.
func (p *predictCommand) append(ctx context.Context, s *session, weights nn.State) error {
	g, err := s.job.Base()
	if err != nil {
		return err
	}
	if trained := s.job.Columns(); trained != nil {
		p.added.Like = &tables.Like{Columns: trained}
	}
	err = g.Guard(func() error {
		added, err := p.added.read(g)
		if err != nil {
			return err
		}
		if s.job.Appended, err = g.With(added); err != nil {
			return err
		}
		p.added.new = added.Types[0].Names
		for v := g.Own(); v < s.job.Appended.Counts[0]; v++ {
			s.job.Vertices = append(s.job.Vertices, int32(v))
		}
		if len(s.job.Vertices) == 0 && p.vertices == "" && !p.changed {
			return refusal.Errorf("--add-edges: no vertex is new; name those to predict with --vertices, " +
				"or predict all that can differ with --changed")
		}
		return nil
	})
	if err == nil && p.changed {
		p.added.Progress("finding the vertices that can differ", 0, 0)
		err = p.findChanged(ctx, s, weights)
	}
	return err
}
