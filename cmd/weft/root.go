package main

import (
	"github.com/spf13/cobra"

	"weft/cmd/weft/internal/calls"
	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/data"
	"weft/cmd/weft/internal/inference"
	"weft/cmd/weft/internal/planning"
	"weft/cmd/weft/internal/reports"
	"weft/cmd/weft/internal/training"
	"weft/cmd/weft/internal/ui"
	"weft/comm/mpi"
	"weft/device"
)

// subcommands make the subcommands by their names, except man, which describes all.
var subcommands = map[string]func() *cobra.Command{
	"append": data.NewAppend, "datasets": data.NewDatasets, "generate": data.NewGenerate,
	"import": data.NewImport, "inspect": data.NewInspect, "partition": data.NewPartition,
	"stores": data.NewStores,

	"doctor": planning.NewDoctor, "plan": planning.NewPlan,
	"sweep": training.NewSweep, "train": training.NewTrain,

	"evaluate": inference.NewEvaluate, "explain": inference.NewExplain,
	"predict": inference.NewPredict, "serve": inference.NewServe,
	"smooth": inference.NewSmooth,

	"report": reports.NewReport, "runs": reports.NewRuns,

	"bench": newBench, "calls": calls.New, "version": newVersion,
}

// newRoot builds the command with its subcommands. If the first word names a subcommand, it builds only that
// one, as all together have hundreds of flags. The flag that it returns is set once a subcommand starts to
// work.
func newRoot(words ...string) (root *cobra.Command, started *bool) {
	started = new(bool)
	root = &cobra.Command{
		Use:   "weft",
		Short: "train graph neural networks on whole graphs",
		Long: `weft trains graph neural networks on whole graphs: full-batch, without sampling.

A graph is a store: a directory that import or generate wrote, or one of the names that datasets lists.
train writes a run directory with the weights, the predictions and the metrics of each epoch; predict uses its weights.`,
		Example: `  weft train debian
  weft generate sbm stores/sbm --vertices 8000 --degree 20
  weft train stores/sbm --model gcn --hidden 128
  weft import npz coauthor_physics.npz stores/physics --symmetrize --largest-component --split per-class=20,30`,
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return cli.UnknownName(cmd, "command", args[0])
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := refuseEmpty(cmd.Flags()); err != nil {
				return err
			}
			*started = true
			cli.OncePerMachine(cmd)
			if mpi.LocalRank() == 0 {
				device.Compiling = func(what string) (end func()) {
					shown := ui.NewPhases(ui.BesideResults(cmd))
					shown.Show(what, 0, 0)
					return shown.Erase
				}
			}
			return nil
		},
	}
	useTemplates(root)
	root.SetFlagErrorFunc(flagError)
	root.SetVersionTemplate("weft {{.Version}}\n")
	root.AddCommand(newMan())
	named := len(words) > 0 && subcommands[words[0]] != nil
	for name, make := range subcommands {
		if !named || name == words[0] {
			root.AddCommand(make())
		}
	}
	keepFlagOrder(root)
	cli.ReadCounts(root)
	cli.CompleteFlags(root)
	return root, started
}

// keepFlagOrder makes help texts list the flags of a command, and of its subcommands, in the order in which
// they were added, and not by name.
func keepFlagOrder(cmd *cobra.Command) {
	cmd.Flags().SortFlags = false
	cmd.PersistentFlags().SortFlags = false
	for _, c := range cmd.Commands() {
		keepFlagOrder(c)
	}
}
