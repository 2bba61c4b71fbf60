package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"weft/graph"
	"weft/internal/npy"
	"weft/internal/refusal"
	"weft/internal/safetensors"
	"weft/train"
)

type predictCommand struct {
	settings   settingFlags
	out        string
	embeddings string
}

func newPredict() *cobra.Command {
	p := &predictCommand{}
	cmd := &cobra.Command{
		Use:   "predict RUN [STORE] | --init WEIGHTS --config FILE STORE",
		Short: "predict with the weights of a run, or with weights trained elsewhere",
		Long: `predict computes the logits of every vertex of a graph, full-graph and without dropout, and writes them as a NumPy array
with a row per vertex in the graph's order.

The weights are those of a run's directory, on the run's own graph or on another one with as many features; or those of a
safetensors file with the names and shapes of PyTorch Geometric's models, whose settings --config or flags describe.
Settings of the training are accepted and ignored.`,
		Example: `  weft predict runs/first --out preds.npy
  weft predict runs/first stores/newer --out preds.npy --embeddings hidden.npy
  weft predict --init weights.safetensors --config model.yaml stores/mine --out preds.npy`,
		Args: arguments(0, 2),
		RunE: func(cmd *cobra.Command, args []string) error { return p.run(cmd, args) },
	}
	p.settings.add(cmd.Flags())
	for _, s := range train.Settings() {
		if s.Group == train.TrainingGroup && s.Name != "init" {
			cmd.Flags().Lookup(s.Name).Hidden = true
		}
	}
	cmd.Flags().Lookup("init").Usage = "safetensors file with the weights to predict with"
	cmd.Flags().StringVar(&p.out, "out", "", "`file` for the logits, float32, vertices × classes")
	cmd.Flags().StringVar(&p.embeddings, "embeddings", "", "`file` for the last hidden layer, float32, vertices × columns")
	return cmd
}

// request is what is asked of predict, once its arguments are understood.
type request struct {
	options train.Options
	weights string
	graph   string // dataset or store
}

func (p *predictCommand) run(cmd *cobra.Command, args []string) error {
	asked, err := p.understand(args)
	if err != nil {
		return err
	}
	if err := checkFile("out", p.out); err != nil {
		return err
	}
	if p.embeddings != "" {
		if err := checkFile("embeddings", p.embeddings); err != nil {
			return err
		}
	}
	weights, _, err := safetensors.ReadFile(asked.weights)
	if err != nil {
		return err
	}
	g, _, err := openDataset(asked.graph, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer g.Close()
	return p.predict(cmd, g, asked.options, weights)
}

// understand finds the settings, the weights and the graph: a run's directory holds all three, --init names the weights alone.
func (p *predictCommand) understand(args []string) (asked request, err error) {
	given, err := p.settings.merge()
	if err != nil {
		return asked, err
	}
	switch {
	case given.Init != "" && len(args) == 1:
		asked = request{options: given, weights: given.Init, graph: args[0]}
	case given.Init != "":
		return asked, refusal.Errorf("predict --init %s: name the one graph to predict on, and no run", given.Init)
	case p.settings.config != "":
		return asked, refusal.Errorf("--config %s: a run has its own settings; leave --config out, or give weights with --init",
			p.settings.config)
	case len(args) == 0:
		return asked, refusal.Errorf("predict: name a run's directory, or weights with --init and a graph")
	default:
		var run train.Run
		if run, asked.options, asked.weights, err = train.ReadRun(args[0]); err != nil {
			return asked, err
		}
		if err := p.settings.override(&asked.options); err != nil {
			return asked, err
		}
		asked.graph = run.Store
		if len(args) == 2 {
			asked.graph = args[1]
		}
	}
	return asked, check(&asked.options)
}

func (p *predictCommand) predict(cmd *cobra.Command, g *graph.Graph, o train.Options, weights map[string]safetensors.Tensor) error {
	ctx, stop := untilSignal(cmd.Context(), func(s os.Signal) {
		fmt.Fprintf(cmd.ErrOrStderr(), "weft: %s: stopping; nothing is written\n", s)
	})
	defer stop()
	started := time.Now()
	result, err := (&train.Job{Graph: g, Options: o}).Predict(ctx, weights, p.embeddings != "")
	if ctx.Err() != nil {
		return errInterrupted
	}
	if err != nil {
		return err
	}
	if p.embeddings != "" {
		if err := npy.WriteFile(p.embeddings, result.Embeddings, g.Vertices(), result.EmbeddingColumns); err != nil {
			return err
		}
	}
	if err := npy.WriteFile(p.out, result.Logits, g.Vertices(), result.Classes); err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: logits of %s vertices, %s classes, in %s\n", p.out, count(g.Vertices()), count(result.Classes),
		duration(time.Since(started)))
	return nil
}

// checkFile refuses, before any work, a file that could not be written.
func checkFile(flag, path string) error {
	if path == "" {
		return refusal.Errorf("--%s is missing: name the file to write", flag)
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return refusal.Errorf("--%s %s: a folder; name a file", flag, path)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return refusal.Errorf("--%s %s: there is no folder %s", flag, path, filepath.Dir(path))
	}
	return nil
}
