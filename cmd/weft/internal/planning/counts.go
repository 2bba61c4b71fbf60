package planning

import (
	"math"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/data"
	"weft/cmd/weft/internal/ui"
	"weft/gnn"
	"weft/graph"
	"weft/internal/refusal"
	"weft/partition"
	"weft/train/metric"
	"weft/train/planner"
	"weft/train/setting"
)

// mostDegree is the largest mean degree of a graph that is given by counts. A part of such a graph is still
// planned within seconds.
const mostDegree = 10_000

// CountsGiven are flags that give the counts of a graph that is not there.
type CountsGiven struct {
	vertices, edges, features, classes, edgeFeatures int
	halo                                             float64
	flags                                            *pflag.FlagSet // the flags
}

// Add adds the flags to a command.
func (c *CountsGiven) Add(flags *pflag.FlagSet) {
	c.flags = pflag.NewFlagSet("counts", pflag.ContinueOnError)
	c.flags.IntVar(&c.vertices, "vertices", 0, "`number` of vertices of a graph that is not there yet, as "+
		"in 10M")
	c.flags.IntVar(&c.edges, "edges", 0, "its `number` of edges as a store has them, each in both "+
		"directions, as in 1.5B")
	c.flags.IntVar(&c.features, "features", 0, "its `number` of feature columns")
	c.flags.IntVar(&c.classes, "classes", 0, "its `number` of classes")
	c.flags.IntVar(&c.edgeFeatures, "features-of-edges", 0, "its `number` of feature columns of an edge")
	c.flags.Float64Var(&c.halo, "halo-rows", 0, "`fraction` of its vertices that --workers partitions receive "+
		"of each other together: weft partition's replication less 1 (default: that of a random graph)")
	c.flags.VisitAll(func(f *pflag.Flag) {
		f.Annotations = map[string][]string{cli.FlagGroup: {"Counts (of a graph that is not there yet)"}}
	})
	flags.AddFlagSet(c.flags)
}

// learnsEdges gives edges, in place of vertices, labels of that name.
func learnsEdges(c *planner.Counts, column string) {
	train, val := int(c.Edges*6/10), int(c.Edges*2/10)
	split := graph.SplitSizes{Train: train, Val: val, Test: int(c.Edges) - train - val}
	l := partition.RelationFrame{Column: column, Classes: c.Classes, Splits: []graph.SplitSizes{split}}
	c.Frames = []partition.RelationFrame{l}
	c.Classes, c.Splits, c.Metric = 0, nil, ""
}

// Counts returns the counts that the flags give; nil: they give none. name is the graph that is there; "":
// there is none. partitions is the number of partitions to which --halo-rows belongs. A loop has no classes.
func (c *CountsGiven) Counts(name string, partitions int, loop bool) (*planner.Counts, error) {
	flag := ""
	c.flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed && flag == "" {
			flag = f.Name
		}
	})
	switch {
	case flag == "" && name == "":
		return nil, refusal.Errorf("name a graph, or give the counts of one that is not there yet, as in " +
			"weft plan --vertices 10M --edges 200M --features 128 --classes 40 --workers 16")
	case flag == "":
		return nil, nil
	case name != "":
		return nil, refusal.Errorf("--%s: describes a graph that is not there yet, and %s is there; leave "+
			"one of them out", flag, name)
	}
	for _, f := range []struct {
		name               string
		value, least, most int
	}{
		{"vertices", c.vertices, 2, math.MaxInt32},
		{"edges", c.edges, 1, min(1<<40, mostDegree*c.vertices)},
		{"features", c.features, 0, 1 << 20},
		{"features-of-edges", c.edgeFeatures, 0, 1 << 20},
		{"classes", c.classes, 1, c.vertices},
	} {
		if loop && f.name == "classes" {
			if c.flags.Changed(f.name) {
				return nil, refusal.Errorf("--classes %d: a loop has its own loss; leave it out", c.classes)
			}
			continue
		}
		if f.least > 0 && !c.flags.Changed(f.name) {
			return nil, refusal.Errorf("--%s: is missing; a graph that is not there yet needs it", f.name)
		}
		if f.value < f.least || f.value > f.most {
			return nil, refusal.Errorf("--%s %d: give %s to %s", f.name, f.value, ui.Count(f.least),
				ui.Count(f.most))
		}
	}
	train, val := c.vertices*6/10, c.vertices*2/10
	counts := &planner.Counts{Symmetric: true, Mixing: 1, EdgeColumns: c.edgeFeatures, Whole: partition.Whole{
		Vertices: c.vertices, Edges: int64(c.edges),
		Types: []partition.WholeType{{Vertices: c.vertices, FeatureColumns: c.features}},
		WholeFrame: partition.WholeFrame{
			Classes: c.classes, Metric: metric.Accuracy,
			Splits: []graph.SplitSizes{{Train: train, Val: val, Test: c.vertices - train - val}},
		},
	}}
	if c.flags.Changed("halo-rows") && (partitions < 2 || !counts.Measured(partitions, c.halo)) {
		return nil, refusal.Errorf("--halo-rows %g: it lies between 0 and what the edges can bring, for 2 "+
			"partitions or more; %d partitions of a random graph have %.2f", c.halo, partitions,
			counts.HaloRows(partitions))
	}
	return counts, nil
}

// checkCounts refuses flags that are for a graph that is there, and counts without the features that the
// model reads.
func (p *planCommand) checkCounts(cmd *cobra.Command, counts *planner.Counts, o *setting.Options) error {
	graphs := slices.DeleteFunc(p.tables.Source("").Flags, func(f *pflag.Flag) bool {
		return f.Name == data.EdgeLabelFlag // this flag is a setting, too
	})
	if f := cmd.Flags().Lookup("exactly"); f.Changed {
		graphs = append(graphs, f)
	}
	switch {
	case len(graphs) > 0:
		return refusal.Errorf("--%s: is for a graph that is there; leave it out, or name one", graphs[0].Name)
	case counts.Types[0].FeatureColumns == 0 && o.NodeEmbedding == 0 &&
		!slices.Contains(gnn.Featureless(), o.Model):
		return refusal.Errorf("--features 0: %s reads features of vertices; give their columns, or have "+
			"some learned with --node-embedding N", o.Model)
	}
	return nil
}
