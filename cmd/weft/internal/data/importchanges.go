package data

import (
	"fmt"

	"github.com/spf13/pflag"

	"weft/graph"
	"weft/internal/refusal"
)

// changes are the changes that import makes to a graph after it has read it.
type changes struct {
	symmetrize, selfLoops, largest bool
	reverse                        bool // add reverse relations
	split                          string
	splits                         int
	randomFeatures                 int
	seed                           uint64
}

func (c *changes) flags(flags *pflag.FlagSet) {
	c.edgeFlags(flags)
	flags.BoolVar(&c.selfLoops, selfLoopsFlag, false, "give each vertex an edge to itself")
	flags.BoolVar(&c.largest, "largest-component", false, "keep the largest connected component only")
	flags.StringVar(&c.split, "split", "", "`rule`: given, random:60/20/20, per-class=20,30 or "+
		"per-class=20,=500,=1000, where = is a number over all classes, graphs:60/20/20 of several "+
		"graphs, train, val or test for all vertices; of edges with labels also "+
		"time:COLUMN=2024-01-01,2024-02-01, the first dates that validate and test, or column:NAME of the words "+
		"train, val and test (default: the source's own)")
	flags.IntVar(&c.splits, "splits", 1, "number of splits that the rule makes")
	flags.IntVar(&c.randomFeatures, "random-features", 0, "replace the features by so many columns of "+
		"normal noise")
	flags.Uint64Var(&c.seed, "seed", 0, "seed of random splits and features")
}

// Flags that add edges.
const (
	symmetrizeFlag = "symmetrize"
	selfLoopsFlag  = "self-loops"
	reverseFlag    = "reverse-relations"
)

// edgeFlags declares the flags that add edges. Other commands take them, too, with tables.
func (c *changes) edgeFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&c.symmetrize, symmetrizeFlag, false, "store each edge in both directions")
	flags.BoolVar(&c.reverse, reverseFlag, false, "add to each relation its reverse, rev_NAME")
}

// check refuses flags with impossible values, before the source is read.
func (c *changes) check(flags *pflag.FlagSet) error {
	if flags.Changed("random-features") && c.randomFeatures < 1 {
		return refusal.Errorf("--random-features %d: give at least 1 column", c.randomFeatures)
	}
	if f := flags.Lookup("vertices"); f != nil && f.Changed && f.Value.String() == "0" {
		return refusal.Errorf("--vertices 0: a graph has at least one; give their number, or leave " +
			"--vertices out for the largest id and one")
	}
	if c.split == "" && flags.Changed("splits") {
		return refusal.Errorf("--splits %d: say by which rule with --split", c.splits)
	}
	if c.split != "" {
		if _, err := graph.ParseSplit(c.split); err != nil {
			return err
		}
	}
	return nil
}

// needGraph reports whether a change needs the whole graph in memory.
func (c *changes) needGraph() bool {
	return c.largest || c.selfLoops || c.reverse || c.randomFeatures != 0
}

// apply makes the changes to a graph that was read. symmetric says that the reader has already made it so.
func (c *changes) apply(g *graph.Graph, symmetric bool) (_ *graph.Graph, err error) {
	for _, change := range []struct {
		flag  string
		asked bool
		apply func(*graph.Graph) (*graph.Graph, error)
	}{
		{symmetrizeFlag, c.symmetrize && !symmetric, (*graph.Graph).Symmetrize},
		{"largest-component", c.largest, (*graph.Graph).LargestComponent},
		{selfLoopsFlag, c.selfLoops, (*graph.Graph).AddSelfLoops},
		{reverseFlag, c.reverse, (*graph.Graph).ReverseRelations},
	} {
		if !change.asked {
			continue
		}
		if change.flag != reverseFlag {
			if err := g.CheckUnlabelledEdges(); err != nil {
				return nil, fmt.Errorf("--%s: %w", change.flag, err)
			}
		}
		if g, err = change.apply(g); err != nil {
			return nil, fmt.Errorf("--%s: %w", change.flag, err)
		}
	}
	if c.randomFeatures != 0 {
		if g, err = g.RandomFeatures(c.randomFeatures, c.seed); err != nil {
			return nil, err
		}
	}
	if c.split != "" {
		if err := c.makeSplits(g); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// makeSplits divides the vertices by the rule that was asked for. It does nothing if only edges have labels,
// or if the rule is for edges and they have labels.
func (c *changes) makeSplits(g *graph.Graph) error {
	rule, err := graph.ParseSplit(c.split)
	if err != nil {
		return err
	}
	unlabelled := g.CheckUnlabelledEdges() == nil
	if g.Types[0].Labels.There() && rule.By().Column == "" || unlabelled {
		return g.MakeSplits(c.split, c.splits, c.seed)
	}
	return nil
}

// divideEdges divides the edges by the rule that was asked for.
func (c *changes) divideEdges(l *graph.Frame) error {
	return l.MakeSplits(c.split, c.splits, c.seed)
}
