package data

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/ui"
	"weft/graph"
	"weft/internal/refusal"
	"weft/partition"
	"weft/train/setting"
	"weft/train/worker"
)

// autoMethod is the method of a division unless a flag gives one.
var autoMethod = setting.Defaults().Partition

// maxMatrix is the largest number of partitions whose halo rows are printed pair by pair.
const maxMatrix = 16

// NewPartition makes the command partition.
func NewPartition() *cobra.Command {
	var (
		o         partition.Options
		writePart string
		asJSON    bool
		tables    TablesGiven
	)
	cmd := &cobra.Command{
		Use:   "partition STORE -k N",
		Short: "divide a graph's vertices among workers",
		Long: `partition divides the vertices of a store, or of a dataset's store, into N partitions. It writes each partition's share of the graph
into the store, so that a worker reads only its own. It prints the number of edges between partitions, and for each partition the
number of vertices of others that it reads (its halo). It replaces stored partitions of the same method and number.
It writes in streams: after the method, it takes up to 24 bytes of memory for each vertex, and 300 MB.

  auto    metis, or stream for more than 20 million edges or too little memory for metis
  metis   few edges between partitions of about equal weight
  stream  few rows that partitions read of others, in memory that grows with the vertices and not with the edges
  random  equally many vertices in each, drawn at random
  range   contiguous ids
  file    from another partitioner: a line with the partition of each vertex, as in .part.N files of METIS, KaHIP, Mt-KaHyPar`,
		Example: `  weft partition stores/sbm -k 8
  weft partition debian -k 4 --balance train
  weft partition stores/sbm -k 8 --method random --seed 1 --json
  weft partition stores/sbm -k 8 --write-part sbm.part.8
  weft partition stores/sbm -k 8 --method file --file kahip/sbm.part.8`,
		ValidArgsFunction: cli.CompleteInOrder(cli.CompleteGraph),
		Args:              tables.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkPartitionFlags(cmd.Flags(), &o, writePart); err != nil {
				return err
			}
			// Without a wait for another worker there is no timeout to set.
			o.Timeout = setting.Defaults().CommTimeout
			return runPartition(cmd, tables.Source(args[0]), o, writePart, asJSON)
		},
	}
	flags := cmd.Flags()
	tables.Add(cmd, false)
	flags.IntVarP(&o.K, "partitions", "k", 0, "number of partitions")
	methods := append([]string{autoMethod}, partition.Methods()...)
	flags.StringVar(&o.Method, "method", autoMethod, "`name`: "+strings.Join(methods, ", "))
	flags.StringVar(&o.File, "file", "", "`file` that the method file reads")
	flags.StringVar(&o.Balance, "balance", partition.Balances()[0],
		"`name` of what each partition gets an equal share of: "+strings.Join(partition.Balances(), ", ")+
			" (edges and train in addition to vertices; auto: edges where that leaves less work to the "+
			"busiest worker)")
	flags.Lookup("method").Annotations = map[string][]string{cli.FlagChoices: methods}
	flags.Lookup("balance").Annotations = map[string][]string{cli.FlagChoices: partition.Balances()}
	flags.Uint64Var(&o.Seed, "seed", 0, "seed of the methods metis, stream and random")
	flags.IntVar(&o.Split, "split", 0, "the split whose training vertices are balanced and counted, from 0")
	flags.StringVar(&writePart, "write-part", "", "`file` to write the partition of each vertex to, for "+
		"other programs")
	flags.BoolVar(&asJSON, "json", false, "print one JSON object")
	ui.AddQuiet(flags)
	return cmd
}

// checkPartitionFlags refuses flags that no graph allows, and flags without effect.
func checkPartitionFlags(flags *pflag.FlagSet, o *partition.Options, writePart string) error {
	if !flags.Changed("partitions") {
		return refusal.Errorf("say into how many partitions, with -k")
	}
	asked := *o
	if o.Method == autoMethod {
		asked.Method = partition.Metis
	}
	if err := asked.Validate(); err != nil {
		return err
	}
	if flags.Changed("seed") && (o.Method == partition.Range || o.Method == partition.File) {
		return refusal.Errorf("--seed %d: the partition method %s has no randomness; leave it out", o.Seed,
			o.Method)
	}
	if flags.Changed("balance") && o.Method == partition.File {
		return refusal.Errorf("--balance %s: the partition method file takes the partitions as they are; "+
			"leave it out", o.Balance)
	}
	if flags.Changed("write-part") {
		return cli.Outputs{{Flag: "write-part", Path: writePart}}.Check(o.File)
	}
	return nil
}

// partitioned is what partition prints as JSON.
type partitioned struct {
	Store string `json:"store"`
	partition.Record
	CutShare          float64 `json:"cut_share"`          // of all edges
	VertexBalance     float64 `json:"vertex_balance"`     // largest over mean
	EdgeBalance       float64 `json:"edge_balance"`       // of in-edges
	TrainBalance      float64 `json:"train_balance"`      // of training vertices
	ReplicationFactor float64 `json:"replication_factor"` // rows owned or halo, for each owned row
}

func runPartition(cmd *cobra.Command, source Source, o partition.Options, writePart string,
	asJSON bool,
) error {
	// A division holds arrays without pointers, so collections are cheap.
	const garbage = 10 // percent
	defer debug.SetGCPercent(debug.SetGCPercent(garbage))
	g, store, err := OpenDataset(cmd.Context(), source, ui.BesideResults(cmd), func(store string) error {
		return cli.Outputs{{Flag: "write-part", Path: writePart}}.CheckApartFromGraph(source.Name, store)
	})
	if err != nil {
		return err
	}
	defer g.Close()
	if err := partition.CheckWritable(store); err != nil {
		return err
	}
	if o.Method == autoMethod {
		o.Method, _ = partition.Auto(g)
		if instead := InsteadOfMetis(g, "--method"); instead != "" {
			fmt.Fprintf(ui.BesideResults(cmd), "%s: dividing it by %s%s\n", ui.Printable(source.Name),
				o.Method, instead)
		}
	}
	name := partition.Name(o.Method, o.K)
	if err := partition.CheckPlace(store, name); err != nil {
		return err
	}
	defer cli.RemoveOnSignal(cmd.ErrOrStderr(), partition.Directory(store, name))()
	shown := ui.NewPhases(ui.BesideResults(cmd))
	o.Progress = shown.Show
	defer shown.Erase()
	a, err := partition.Assign(cmd.Context(), g, o)
	if err != nil {
		return About(source, err)
	}
	if _, err := partition.Write(store, g, a, shown.Show); err != nil {
		return err
	}
	shown.Erase()
	if writePart != "" {
		if err := partition.WriteFile(writePart, a); err != nil {
			return err
		}
	}
	d, found, err := FindPartitions(store, o.K, o.Method)
	if err == nil && !found {
		err = fmt.Errorf("%s: another process removed the partitions that were written; partition it again",
			store)
	}
	if err != nil {
		return err
	}
	return ui.Show(cmd.OutOrStdout(), &partitioned{
		store, d.Record(), ratio(d.CutEdges, d.Whole.Edges), worker.Imbalance(d.Vertices),
		worker.Imbalance(d.Edges), worker.Imbalance(d.TrainVertices), d.Replication(),
	}, asJSON)
}

func (d *partitioned) Print(out io.Writer) {
	t := ui.NewTable(out)
	t.Row("store", d.Store)
	t.Row("partitions", fmt.Sprintf("%s by %s, kept as partitions/%s", ui.Count(d.K), d.Method, d.Name))
	t.Row("time", ui.Duration(ui.Seconds(d.Seconds)))
	t.Row("cut edges", fmt.Sprintf("%s of %s, %s", ui.Count(d.CutEdges), ui.Count(d.Whole.Edges),
		ui.Percent(d.CutShare)))
	t.Row("balance", ui.Joined(
		fmt.Sprintf("vertices %.3f", d.VertexBalance), fmt.Sprintf("in-edges %.3f", d.EdgeBalance),
		ui.When(d.TrainBalance > 0, fmt.Sprintf("training vertices %.3f", d.TrainBalance)))+
		": largest over mean")
	t.Row("replication", fmt.Sprintf("%.3f rows owned or halo for each owned", d.ReplicationFactor))
	t.Flush()
	fmt.Fprintln(out)
	rows := [][]string{{"partition", "vertices", "in-edges", "training", "halo rows", "replication"}}
	for p := range d.K {
		replication := "–"
		if own := d.Vertices[p]; own > 0 {
			replication = fmt.Sprintf("%.3f", float64(own+d.Halo(p))/float64(own))
		}
		rows = append(rows, []string{
			fmt.Sprint(p), ui.Count(d.Vertices[p]), ui.Count(d.Edges[p]), ui.Count(d.TrainVertices[p]),
			ui.Count(d.Halo(p)), replication,
		})
	}
	ui.PrintNumbers(out, rows)
	if d.K == 1 || d.K > maxMatrix {
		return
	}
	fmt.Fprintln(out)
	rows = [][]string{{"halo rows"}}
	for p := range d.K {
		rows[0] = append(rows[0], fmt.Sprintf("from %d", p))
		row := []string{fmt.Sprintf("to %d", p)}
		for _, n := range d.HaloRows[p] {
			row = append(row, ui.Count(n))
		}
		rows = append(rows, row)
	}
	ui.PrintNumbers(out, rows)
}

// ratio is part/all, or 0 if all is 0.
func ratio(part, all int64) float64 {
	if all == 0 {
		return 0
	}
	return float64(part) / float64(all)
}

// FindPartitions is partition.Find. If partitions are out of date, its error says how to renew them.
func FindPartitions(store string, k int, method string) (d partition.Description, found bool, err error) {
	d, found, err = partition.Find(store, k, method)
	if old := (*partition.OutOfDate)(nil); errors.As(err, &old) && old.Method != partition.DGL {
		err = fmt.Errorf("%w: weft partition %s -k %d --method %s", err, store, old.K, old.Method)
	}
	return d, found, err
}

// InsteadOfMetis says why a graph is divided by another method than METIS although no flag asks for one. If
// METIS may take long, it says how to ask for another. "": METIS is soon done.
func InsteadOfMetis(g *graph.Graph, flag string) string {
	_, why := partition.Auto(g)
	switch {
	case why == "" && partition.Slow(g):
		return fmt.Sprintf(" (it may take minutes; %s %s takes seconds)", flag, partition.Stream)
	case why == "":
		return ""
	}
	return fmt.Sprintf(" (%s for %s; %s metis asks for it)", why, ui.Counted(g.Edges(), "edge", "edges"), flag)
}
