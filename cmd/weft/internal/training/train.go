package training

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/data"
	"weft/cmd/weft/internal/inference"
	"weft/cmd/weft/internal/session"
	"weft/cmd/weft/internal/ui"
	"weft/graph"
	"weft/internal/refusal"
	"weft/tensor/offload"
	"weft/train"
	"weft/train/rundir"
	"weft/train/setting"
	"weft/train/task"
)

type trainCommand struct {
	settings    cli.SettingFlags
	tables      data.TablesGiven
	out         string
	resume      string
	trace       string
	embeddings  string
	json        bool
	showPlan    bool
	seeds       int
	tensorboard string
	splits      string
	cpuProfile  string
	admitted    bool // no output is a file of the graph
	watch       int
	follow      bool
	turns       bool     // --partitions auto: partitions must be chosen
	offload     string   // where matrices are to rest
	live        *live    // the live page, on the first rank, for several runs
	group       *several // the runs to which this one belongs; nil: it is the only one
}

// NewTrain makes the command train.
func NewTrain() *cobra.Command {
	t := &trainCommand{}
	cmd := &cobra.Command{
		Use:   "train DATASET|STORE",
		Short: "train a model on a whole graph",
		Long: `train trains a model on a whole graph and writes a run directory: run.yaml (its settings), metrics.jsonl (a line per
epoch), checkpoints/, model.safetensors (the weights of the best epoch), predictions.npy (a row of logits per vertex) and run.json,
written last. --resume continues a run from its last checkpoint, to the same bits as if it had never stopped, or on another mesh.

The best epoch is the first with the highest validation metric, or with --select loss the first with the lowest validation loss.
The results are computed with its weights. Without validation vertices the best epoch is the last one.

With --validate STORE validation and test vertices are those of another store, such as graphs that the model does not see in training.

With --seeds N it trains N times, with the seeds from that of --seed on, and prints the mean and the sample standard deviation (n − 1) of the runs. With
--splits all it trains on each stored split. Each run has a directory below that of --out.

With --task link, link prediction learns edges instead of classes. The model computes an embedding of each vertex, and a decoder scores
an edge from the embeddings of its ends. Validation and test edges that --link-split draws pass no messages. Where the store has a split of edges, its
edges pass messages, whatever the split has. predictions.npy then holds the embeddings.

A signal (SIGINT, SIGTERM, SIGHUP or SIGUSR1) ends the run after the current epoch, with a checkpoint, and keeps the results. A second SIGINT that comes a
second later or more stops at once.`,
		Example: `  weft train debian
  weft train cora --config cora-gcn --seed 3
  weft train stores/mine --model gat --hidden 64 --heads 8 --epochs 500 --patience 50
  weft train stores/mine --model sage --json --out runs/first > runs/first.json
  weft train stores/mine --seeds 10
  weft train stores/minesweeper --splits all
  weft train stores/ppi-train --validate stores/ppi-val
  weft train --resume runs/first --epochs 400
  weft train stores/mine --out runs/long --resume auto --max-time 3h50m`,
		Annotations:       map[string]string{cli.JoinsRanks: ""},
		ValidArgsFunction: cli.CompleteInOrder(cli.CompleteGraph),
		Args:              t.tables.Arguments(0, 1),
		RunE:              t.run,
	}
	t.settings.Add(cmd.Flags())
	t.tables.Add(cmd, true)
	cmd.Flags().StringVar(&t.out, "out", "", "run `directory`, new or empty (default: a new folder "+
		"under runs/)")
	cmd.Flags().StringVar(&t.resume, "resume", "", "`run` directory to continue from its last checkpoint; "+
		"auto: that of --out, if a run has begun there")
	cmd.Flags().StringVar(&t.trace, "trace", "", "`file` for a trace of the last epoch of every worker, "+
		"which ui.perfetto.dev shows")
	cmd.Flags().StringVar(&t.embeddings, "embeddings", "",
		inference.EmbeddingsUsage+", with the weights of the best "+
			"epoch")
	cmd.Flags().IntVar(&t.seeds, "seeds", 0, "`number` of runs with one seed each, from --seed on; prints "+
		"their mean and sample standard deviation, n − 1 (default: one run)")
	cmd.Flags().StringVar(&t.splits, "splits", "", "all: a run on each stored split, with each seed")
	cmd.Flags().IntVar(&t.watch, "watch", 0, "`port` of a live page of the run, for browsers on this "+
		"machine; 0 takes a free one (default: no page)")
	cmd.Flags().StringVar(&t.tensorboard, "tensorboard", "", "`folder` for event files of losses, "+
		"metrics, seconds and memory, which TensorBoard shows")
	cmd.Flags().StringVar(&t.cpuProfile, "cpuprofile", "", "`file` for a CPU profile of this process, for "+
		"go tool pprof; the kernels stand in it as calls of C")
	cmd.Flags().BoolVar(&t.json, "json", false, "print the results as one JSON object; progress goes to "+
		"standard error")
	ui.AddQuiet(cmd.Flags())
	cmd.Flags().BoolVar(&t.follow, "follow", false, "print each epoch as a JSON object too, on a line, and "+
		"wait for a line of standard input, unless that has ended: an empty one goes on, stop ends the run "+
		"as a signal does; with --json")
	cmd.Flags().BoolVar(&t.showPlan, "show-plan", false,
		"print what the run would do and need, without training")
	cmd.Flags().BoolVar(&t.showPlan, "explain", false, "the former name of --show-plan")
	cmd.Flags().Lookup("explain").Hidden = true
	return cmd
}

func (t *trainCommand) run(cmd *cobra.Command, args []string) error {
	if cmd.Flags().Changed("explain") {
		fmt.Fprintln(cmd.ErrOrStderr(), "weft: warning: --explain of train is now --show-plan; the next version "+
			"has the new name alone")
	}
	err := t.checkSeveral(cmd.Flags().Changed("seeds"))
	if err == nil {
		err = checkFollow(t.follow, t.json)
	}
	several := t.isSeveral() && !t.showPlan // a plan is of the first run
	var (
		run      *resumption
		settings *setting.Resolved
		auto     bool
	)
	if err == nil && !several {
		run, err = t.findRun(args)
	}
	if err == nil {
		settings, auto, err = t.settle(run)
	}
	return cli.AsRank(cmd, settings, err, func(r cli.Ranks) error {
		if err := run.agree(r); err != nil {
			return err
		}
		stop, err := t.profile(r)
		if err != nil {
			return err
		}
		defer stop()
		if cmd.Flags().Changed("watch") && !t.showPlan {
			if err := r.OnFirst(func() (err error) {
				t.live, err = newLive(t.watch)
				if err == nil && ui.ProgressOf(cmd, t.json) == io.Discard { // nobody else says a free port
					fmt.Fprintf(cmd.ErrOrStderr(), "--watch %d: live at %s\n", t.watch, t.live.url())
				}
				return err
			}); err != nil {
				return err
			}
			defer func() { t.live.close() }()
		}
		if run != nil {
			if len(args) > 0 && run.graph == run.state.Store {
				t.tables = data.TablesGiven{} // the run has the store that was made with these flags
			}
			return t.resumeRun(cmd, r, run, settings, nil)
		}
		if auto {
			if settings, err = t.choose(cmd, r, args[0], settings); err != nil {
				return err
			}
		}
		if t.turns {
			if settings, err = t.chooseTurns(cmd, r, args[0], settings); err != nil {
				return err
			}
		}
		if several {
			return t.trainSeveral(cmd, r, args, settings)
		}
		return t.train(cmd, r, args[0], settings, nil, nil)
	})
}

// source is the graph of that name. Labels of tables are divided as data.DefaultSplit says, unless a rule is
// given.
func (t *trainCommand) source(dataset string) data.Source {
	s := t.tables.Source(dataset)
	s.Train = "weft train"
	o, err := t.settings.Merge()
	s.Label = err == nil && o.Task == task.Vertex && o.EdgeLabel == ""
	if err == nil {
		s.DivideBy(o.Split.Rule)
	}
	return s
}

// open opens the graphs of a run.
func (t *trainCommand) open(
	cmd *cobra.Command, r cli.Ranks, dataset string, settings *setting.Resolved, show io.Writer,
) (*session.Session, error) {
	id := "" // the ID of the store, before it is opened
	admit := func(store string) error {
		err := t.outputs().CheckApartFromGraph(dataset, store)
		if other := settings.Validate; err == nil && other != "" {
			err = t.outputs().CheckApartFromGraph(other, other)
		}
		t.admitted = err == nil
		if err == nil && !t.showPlan {
			id, _ = graph.ID(store) // whoever opens a store says what is wrong with it
		}
		return err
	}
	source := t.source(dataset)
	s, err := session.Open(cmd.Context(), r, source, settings, show,
		session.Opening{Admit: admit, Check: settings.CheckGraph, Dry: t.showPlan})
	if err != nil {
		return nil, err
	}
	err = s.OpenValidation(cmd.Context(), settings, cmd.ErrOrStderr())
	if err == nil && !t.showPlan {
		err = s.Hold(id)
	}
	if err == nil {
		err = warnSkewed(cmd.ErrOrStderr(), s, &settings.Options)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// checkFirst makes the checks that need no graph.
func (t *trainCommand) checkFirst(cmd *cobra.Command, r cli.Ranks, settings *setting.Resolved,
	run *resumption,
) error {
	if run == nil || run.from == nil {
		err := cli.CheckInit(settings.Init)
		if settings.Program.Path != "" && settings.Init == "" && !t.showPlan {
			err = refusal.Errorf("--program %s: a program has no initial values; give those of the model: "+
				"--init FILE.safetensors", settings.Program)
		}
		if err := r.Together(err); err != nil {
			return err
		}
	}
	if folder := settings.OffloadFolder(); folder != "" {
		if err := r.Together(offload.Check(folder)); err != nil {
			return err
		}
	}
	if settings.DeviceMessages && !t.showPlan {
		if err := r.Together(train.CheckMessages(r.Comm)); err != nil {
			return err
		}
	}
	cli.WarnUnused(cmd.ErrOrStderr(), settings)
	return r.OnFirst(func() error {
		if run == nil && !t.showPlan {
			if err := rundir.CheckNew(t.out); err != nil {
				return err
			}
		}
		return t.checkBeside(settings)
	})
}
