package data

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/ui"
	"weft/graph"
	"weft/graph/generate"
	"weft/graph/streamed"
	"weft/internal/refusal"
)

// NewGenerate makes the command generate.
func NewGenerate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "generate rmat|sbm|uniform STORE",
		Short: "write a synthetic graph of any size",
		Long: `generate writes a synthetic graph with features, labels and a random 60/20/20 split. The same flags give the same bytes.
It writes in streams: it needs 8 bytes of memory for each vertex, and up to 1 GiB of edges.

  rmat     R-MAT: skewed degrees as in the Graph500 benchmark, 2^scale vertices, directed
  sbm      stochastic block model: communities that a graph neural network can learn from noisy features
  uniform  source and destination of each edge are drawn from all vertices`,
		Example: `  weft generate sbm stores/sbm --vertices 8000 --degree 20 --features 16 --classes 16
  weft generate rmat stores/rmat --scale 20 --edge-factor 16
  weft generate uniform stores/dense --vertices 100000 --degree 100 --directed`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return refusal.Errorf("name the kind of graph: weft generate rmat|sbm|uniform STORE")
			}
			return cli.UnknownName(cmd, "kind of graph", args[0])
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		newGenerateKind(generate.RMAT, "a graph of skewed degrees (R-MAT)", "--scale 20 --edge-factor 16"),
		newGenerateKind(generate.SBM, "a graph of communities (stochastic block model)",
			"--vertices 8000 --degree 20"),
		newGenerateKind(generate.Uniform, "a graph of uniformly drawn edges",
			"--vertices 100000 --degree 100 --directed"))
	return cmd
}

func newGenerateKind(kind, short, example string) *cobra.Command {
	o := generate.Default(kind)
	cmd := &cobra.Command{
		Use:     kind + " STORE",
		Short:   short,
		Example: fmt.Sprintf("  weft generate %s stores/%s %s", kind, kind, example),
		Args:    cli.Arguments(1, 1),
		RunE:    func(cmd *cobra.Command, args []string) error { return runGenerate(cmd, args[0], o) },
	}
	cmd.ValidArgsFunction = cli.CompleteInOrder(cli.CompleteFolders)
	flags := cmd.Flags()
	if kind == generate.RMAT {
		flags.IntVar(&o.Scale, "scale", o.Scale, "base-2 logarithm of the number of vertices")
		flags.IntVar(&o.EdgeFactor, "edge-factor", o.EdgeFactor, "edges for each vertex")
	} else {
		flags.IntVar(&o.Vertices, "vertices", o.Vertices, "number of vertices")
		flags.Float64Var(&o.Degree, "degree", o.Degree, "mean in-degree")
		flags.BoolVar(&o.Directed, "directed", false,
			"store each edge in one direction only, instead of both")
	}
	flags.IntVar(&o.Features, "features", o.Features, "feature columns")
	flags.IntVar(&o.Classes, "classes", o.Classes, "number of classes")
	flags.Uint64Var(&o.Seed, "seed", 0, "seed of all randomness")
	ui.AddQuiet(flags)
	return cmd
}

func runGenerate(cmd *cobra.Command, store string, o generate.Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	if err := checkNewStore(store); err != nil {
		return err
	}
	defer cli.RemoveOnSignal(cmd.ErrOrStderr(), store)()
	started := time.Now()
	shown := ui.NewPhases(ui.BesideResults(cmd))
	o.Progress = shown.Show
	err := generate.Write(store, o)
	shown.Erase()
	if err != nil {
		return err
	}
	g, err := graph.Open(store)
	if err != nil {
		return err
	}
	defer g.Close()
	fmt.Fprintln(cmd.OutOrStdout(), storeLine(store, streamed.WrittenOf(g), time.Since(started)))
	return nil
}
