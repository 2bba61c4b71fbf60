package data

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/ui"
	"weft/graph"
	"weft/internal/refusal"
	"weft/partition"
	"weft/train/rundir"
)

// NewInspect makes the command inspect.
func NewInspect() *cobra.Command {
	var (
		asJSON bool
		tables TablesGiven
	)
	cmd := &cobra.Command{
		Use:   "inspect STORE|RUN",
		Short: "check a store and say what it holds, or say where a run stands",
		Long: `inspect checks a store, or the store of a dataset, and prints its counts, degrees, features, classes, splits and
stored partitions. If the store or one of its partitions is damaged, it names the file and the reason.

Of a run directory it prints whether the run is under way, interrupted, failed, killed or finished, and why it ended; how many epochs are
done, the best one so far and the last checkpoint; and the command that continues the run. The run may be under way.`,
		Example: "  weft inspect stores/cora\n  weft inspect debian --json\n  weft " +
			"inspect runs/first",
		ValidArgsFunction: cli.CompleteInOrder(cli.CompleteGraph),
		Args:              tables.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if rundir.Is(args[0]) && !cli.IsStore(args[0]) {
				s, err := rundir.Look(args[0])
				if err != nil {
					return err
				}
				return ui.Show(cmd.OutOrStdout(), &inspectedRun{s, continues(s)}, asJSON)
			}
			g, store, err := OpenDataset(cmd.Context(), tables.Source(args[0]), cmd.ErrOrStderr(), nil)
			if err != nil {
				return err
			}
			defer g.Close()
			shown := ui.NewPhases(cmd.ErrOrStderr())
			defer shown.Erase()
			if err := graph.CheckSums(store, "the graph", shown.Show); err != nil {
				return err
			}
			s := inspected{store: store}
			if s.Summary, err = g.Summarize(shown.Show); err != nil {
				return err
			}
			if s.Partitions, err = listPartitions(store, shown.Show); err != nil {
				return err
			}
			shown.Erase()
			return ui.Show(cmd.OutOrStdout(), &s, asJSON)
		},
	}
	tables.Add(cmd, false)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// inspected is what inspect prints.
type inspected struct {
	graph.Summary
	Partitions []storedPartition `json:"partitions"`
	store      string
}

// storedPartition describes partitions stored with a graph.
type storedPartition struct {
	Name        string    `json:"name"`
	K           int       `json:"k"`
	Method      string    `json:"method"`
	CutEdges    int64     `json:"cut_edges"`
	Replication float64   `json:"replication_factor"`
	Written     time.Time `json:"written"`
	OutOfDate   bool      `json:"out_of_date"` // the store has changed since they were cut
}

// listPartitions lists the partitions of a store, oldest first, and checks them.
func listPartitions(store string, progress graph.Progress) ([]storedPartition, error) {
	all, err := partition.List(store)
	if err != nil {
		return nil, err
	}
	listed := []storedPartition{}
	for _, d := range all {
		stale := d.CheckFresh(store)
		if stale != nil && !refusal.Is(stale) {
			return nil, stale
		}
		if err := partition.Check(store, d, progress); err != nil {
			return nil, err
		}
		listed = append(listed, storedPartition{
			d.Name, d.K, d.Method, d.CutEdges, d.Replication(),
			d.Written, stale != nil,
		})
	}
	return listed, nil
}

func (s *inspected) Print(out io.Writer) {
	t := ui.NewTable(out)
	t.Row("store", s.store)
	t.Field("made by", s.Provenance)
	if s.Graphs > 0 {
		mean := float64(s.Vertices) / float64(s.Graphs)
		t.Row("graphs", fmt.Sprintf("%s, of %.4g vertices on average", ui.Count(s.Graphs), mean))
	}
	t.Row("vertices", ui.Joined(ui.Count(s.Vertices), has(s.Isolated, "isolated", "isolated")))
	edges := graph.RelationSummary{
		Edges: s.Edges, SelfLoops: s.SelfLoops, DuplicateEdges: s.DuplicateEdges,
		Weighted: s.Weighted, EdgeFeatureColumns: s.EdgeFeatureColumns,
	}
	t.Row("edges", edgesOf(&edges, ui.When(s.Symmetric, "un")+"directed"))
	t.Row("in-degree", degrees(s.InDegree))
	t.Row("out-degree", degrees(s.OutDegree))
	if len(s.Types) > 0 {
		t.Row("types", fmt.Sprintf("%s and %s, listed below; features, labels and splits are those of %s",
			ui.Counted(len(s.Types), "vertex type", "vertex types"),
			ui.Counted(len(s.Relations), "relation", "relations"), strconv.Quote(s.Types[0].Type)))
	}
	t.Row("features", featuresOf(s.FeatureColumns, s.SparseFeatures,
		fmt.Sprintf("%.3g %% of the values are not zero", 100*s.FeatureDensity)))
	switch unlabelled := has(s.Unlabelled, "vertex unlabelled", "vertices unlabelled"); {
	case s.ValueColumns > 0:
		t.Row("labels", ui.Joined(ValuesToPredict(s.ValueColumns), unlabelled))
	case s.Classes == 0:
		t.Row("classes", "none")
	default:
		t.Row("classes", ui.Joined(ui.Count(s.Classes), ui.When(s.MultiLabel, "several to a vertex"),
			unlabelled, largest(s)))
	}
	t.Field("arrays", strings.Join(s.Arrays, ", "))
	t.Field("metric", s.Metric)
	for k, split := range s.Splits {
		if k == 5 {
			t.Row("", fmt.Sprintf("and %s more", ui.Count(len(s.Splits)-k)))
			break
		}
		t.Row(fmt.Sprintf("split %d", k), Sizes(split.Train, split.Val, split.Test))
	}
	for _, split := range s.EdgeSplits {
		negatives := map[graph.NegativeForm]string{
			graph.SharedNegatives: fmt.Sprintf("%s and %s negative edges", ui.Count(split.ValNegatives),
				ui.Count(split.TestNegatives)),
			graph.TargetNegatives: fmt.Sprintf("%s and %s negative targets for each",
				ui.Count(split.ValNegatives), ui.Count(split.TestNegatives)),
		}
		t.Row("edge split", ui.Joined(ui.When(len(s.Relations) > 0, split.Relation+": ")+
			Sizes(split.Train, split.Val, split.Test), negatives[split.Negatives]))
	}
	for _, l := range s.Frames {
		t.Row("labels of edges", ui.Joined(ui.When(len(s.Relations) > 0, l.Relation+": ")+l.Column, learned(
			&graph.Labels{Classes: l.Classes, Names: l.ClassNames, Columns: l.ValueColumns}),
			ui.Count(l.Labelled)+" labelled"))
		for _, split := range l.Splits {
			t.Row("their split", Sizes(split.Train, split.Val, split.Test))
		}
	}
	if len(s.Splits) == 0 && len(s.EdgeSplits) == 0 && len(s.Frames) == 0 {
		t.Row("splits", "none: import with --split to make some")
	}
	title := "partitions"
	for _, p := range s.Partitions {
		t.Row(title, ui.Joined(p.Name,
			fmt.Sprintf("%s of the edges cut", ui.Percent(ratio(p.CutEdges, s.Edges))),
			fmt.Sprintf("replication %.3f", p.Replication),
			ui.When(p.OutOfDate, "out of date: partition again")))
		title = ""
	}
	t.Row("checks", "passed: counts, ids and their order, values, classes, splits"+
		ui.When(len(s.Partitions) > 0, ", partitions and their shares"))
	t.Flush()
	printTypes(out, s)
}

// printTypes prints tables of the vertex types and relations, if there are several.
func printTypes(out io.Writer, s *inspected) {
	if len(s.Types) == 0 {
		return
	}
	fmt.Fprintln(out)
	t := ui.NewTable(out)
	t.Row("vertex type", "vertices", "features")
	for _, v := range s.Types {
		t.Row(v.Type, ui.Count(v.Vertices), featuresOf(v.FeatureColumns, v.SparseFeatures))
	}
	t.Flush()
	fmt.Fprintln(out)
	t = ui.NewTable(out)
	t.Row("from", "relation", "to", "edges", "in-degree", "out-degree")
	for _, r := range s.Relations {
		t.Row(r.Source, r.Name, r.Target, edgesOf(&r, ""), degrees(r.InDegree), degrees(r.OutDegree))
	}
	t.Flush()
}

// edgesOf says how many edges a relation has, and what they have.
func edgesOf(r *graph.RelationSummary, direction string) string {
	return ui.Joined(ui.Count(r.Edges), direction, has(r.SelfLoops, "self loop", "self loops"),
		has(r.DuplicateEdges, "duplicate", "duplicates"), ui.When(r.Weighted, "weighted"),
		has(r.EdgeFeatureColumns, "feature column", "feature columns"))
}

// featuresOf says how many columns of features there are, and more about them.
func featuresOf(columns int, sparse bool, more ...string) string {
	if columns == 0 {
		return "none"
	}
	return ui.Joined(append([]string{ui.Count(columns), ui.When(sparse, "stored sparse")}, more...)...)
}

// has names a count, unless it is zero.
func has[T int | int64](n T, one, many string) string {
	return ui.When(n != 0, ui.Counted(n, one, many))
}

// Sizes says how large the parts of a split are.
func Sizes(train, val, test int) string {
	return fmt.Sprintf("%s train, %s validate, %s test", ui.Count(train), ui.Count(val), ui.Count(test))
}

func degrees(d graph.Degrees) string {
	return fmt.Sprintf("%s to %s, mean %.4g", ui.Count(d.Min), ui.Count(d.Max), d.Mean)
}

// largest names the largest class: to guess it is right for its share of the vertices.
func largest(s *inspected) string {
	if len(s.ClassCounts) == 0 {
		return ""
	}
	most := slices.Max(s.ClassCounts)
	class := slices.Index(s.ClassCounts, most)
	name := fmt.Sprint(class)
	if len(s.ClassNames) == len(s.ClassCounts) {
		name = s.ClassNames[class]
	}
	return fmt.Sprintf("the largest (%s) has %s", name, ui.Counted(most, "vertex", "vertices"))
}
