package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"weft/internal/refusal"
	"weft/internal/suggest"
)

// subcommands make those below the root by their names, but for man, which describes all.
var subcommands = map[string]func() *cobra.Command{
	"append": newAppend, "bench": newBench, "datasets": newDatasets, "doctor": newDoctor,
	"evaluate": newEvaluate, "generate": newGenerate, "import": newImport, "inspect": newInspect,
	"partition": newPartition, "plan": newPlan, "predict": newPredict, "report": newReport, "runs": newRuns,
	"serve": newServe, "smooth": newSmooth, "sweep": newSweep, "train": newTrain, "version": newVersion,
}

// newRoot builds the command with its subcommands, only that which the first word names if it names one: all
// together have hundreds of flags. The flag it returns is set once a subcommand starts to work.
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
			return unknownName(cmd, "command", args[0])
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := refuseEmpty(cmd.Flags()); err != nil {
				return err
			}
			*started = true
			oncePerMachine(cmd)
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
	readCounts(root)
	completeFlags(root)
	return root, started
}

// keepFlagOrder makes help texts list the flags of a command, and of those below it, as they were added and
// not by name.
func keepFlagOrder(cmd *cobra.Command) {
	cmd.Flags().SortFlags = false
	cmd.PersistentFlags().SortFlags = false
	for _, c := range cmd.Commands() {
		keepFlagOrder(c)
	}
}

// unknownName refuses a word that should have been the name of a subcommand.
func unknownName(cmd *cobra.Command, what, word string) error {
	if says := otherNames[what].For(word); says != "" {
		return refusal.Errorf("unknown %s %q; %s", what, word, says)
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return refusal.Errorf("unknown %s %q; %s", what, word, suggest.OneOf(word, names))
}

// arguments accepts between low and high positional arguments, which the command's usage line names. An empty
// one is a variable of a shell that is not set, and names nothing.
func arguments(low, high int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < low || len(args) > high {
			_, names, _ := strings.Cut(cmd.UseLine(), " ")
			return refusal.Errorf("wrong number of arguments (%d); the command is: weft %s", len(args), names)
		}
		if at := slices.Index(args, ""); at >= 0 {
			_, names, _ := strings.Cut(cmd.UseLine(), " ")
			return refusal.Errorf("argument %d is empty; the command is: weft %s", at+1, names)
		}
		return nil
	}
}
