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

// addFlags declares the flags of vertices and edges that are added to a graph and not kept.
func addFlags(flags *pflag.FlagSet, o *tables.Options) {
	flags.StringArrayVar(&o.Vertices, "add-vertices", nil, "`file` (CSV or Parquet) of new vertices, with "+
		"the columns of the table that the store was made of; TYPE=FILE for several vertex types")
	flags.StringArrayVar(&o.Edges, "add-edges", nil, "`file` of new edges, by the ids of their ends; "+
		"RELATION=FILE for several relations")
	flags.StringArrayVar(&o.Source, "source", nil,
		"`column` of --add-edges, or of a list of edges in the place of a store, with the sources' ids "+
			"(default: one called source, src, from, …)")
	flags.StringArrayVar(&o.Target, "target", nil, "`column` of --add-edges with the targets' ids")
	flags.StringVar(&o.EdgeWeights, "edge-weights", "", "`column` of --add-edges with their weights")
}

// adds reports whether vertices or edges are added to the graph.
func (p *predictCommand) adds() bool {
	return len(p.add.Vertices)+len(p.add.Edges) > 0 || p.since != ""
}

// names are those of the vertices of the graph, and of the new ones.
func (p *predictCommand) names(g *graph.Graph) []string {
	if len(p.new) == 0 {
		return g.Names
	}
	return slices.Concat(g.Names, p.new)
}

// checkAdded refuses flags of tables that are not there.
func (p *predictCommand) checkAdded() error {
	if p.since != "" && len(p.add.Vertices)+len(p.add.Edges) > 0 {
		return refusal.Errorf("--since %s: the store has what is added; leave --add-vertices and "+
			"--add-edges out",
			p.since)
	}
	for flag, given := range map[string]bool{
		"source": len(p.add.Source) > 0, "target": len(p.add.Target) > 0,
		"edge-weights": p.add.EdgeWeights != "",
	} {
		if given && len(p.add.Edges) == 0 && !p.readsTables() {
			return refusal.Errorf("--%s is about new edges or a list of edges with tables: give "+
				"--add-edges, or --vertices-from", flag)
		}
	}
	return nil
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

// addition reads what is added to a graph: tables, or what a later store has besides.
func (p *predictCommand) addition(g *appended.Base) (a *appended.Addition, err error) {
	if p.since == "" {
		return tables.Add(p.add, g.Graph)
	}
	later, err := graph.Open(p.later)
	if err != nil {
		return nil, err
	}
	defer later.Close()
	err = later.Guard(func() (err error) {
		if a, err = g.Until(later); err != nil {
			err = refusal.Errorf("--since %s: %s is not that store with an addition: %w",
				p.since, p.later, err)
		}
		return err
	})
	return a, err
}

// append gives the job of a session the graph with what is added, of which the new vertices are predicted,
// those that can differ or those of --vertices.
func (p *predictCommand) append(ctx context.Context, s *session, weights nn.State) error {
	g := s.job.Base()
	if trained := s.job.Columns(); trained != nil {
		p.add.Like = &tables.Like{Columns: trained}
	}
	err := g.Guard(func() error {
		added, err := p.addition(g)
		if err != nil {
			return err
		}
		if s.job.Appended, err = g.With(added); err != nil {
			return err
		}
		p.new = added.Types[0].Names
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
		p.add.Progress("finding the vertices that can differ", 0, 0)
		err = p.findChanged(ctx, s, weights)
	}
	return err
}
