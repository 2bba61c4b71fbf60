package inference

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/data"
	"weft/cmd/weft/internal/session"
	"weft/cmd/weft/internal/ui"
	"weft/comm"
	"weft/comm/launch"
	"weft/graph"
	"weft/graph/tables"
	"weft/internal/refusal"
	"weft/train"
	"weft/train/predictions"
	"weft/train/rundir"
	"weft/train/setting"
	"weft/train/task"
)

type predictCommand struct {
	settings cli.SettingFlags
	tables   data.TablesGiven
	files    predictedFiles
	answers  answersGiven
	// threshold is the probability from which on rows have the second class, or "best"; empty: the likeliest
	// class.
	threshold string
	added     addedGiven
	vertices  string // the vertices to predict, or a file of them; empty: all, or the new ones
	bare      bool   // predict only vertices without a label
	changed   bool   // predict what the additions can change, with and without them
}

// NewPredict makes the command predict.
func NewPredict() *cobra.Command {
	p := &predictCommand{}
	cmd := &cobra.Command{
		Use:   "predict RUN [STORE] | --init WEIGHTS --config FILE STORE",
		Short: "predict with the weights of a run, or with weights trained elsewhere",
		Long: `predict computes the logits of every vertex from the whole graph, without dropout. The ending of --out names the format. A .npy file
is a NumPy array of the logits with a row per vertex in the graph's order. A .csv or .parquet file is a table of each vertex, its
predicted class and the probability of that class. For a run of link prediction (--task link) it writes the vertices' embeddings, those
of one vertex type after another where --link-relation joins several. All edges of the graph then pass messages. Where the graph has labels and the split, predict says how good the predictions are.

The weights come from a run's directory. The graph is the run's own, or another one with the same number of features. With --init the
weights come from a safetensors file with the names and shapes of PyTorch Geometric's models, and --config or flags describe the model.
Training settings are accepted and ignored.

--add-vertices and --add-edges predict vertices that came later: those of the table, by the ids of its column, from the store with them and
with the edges. Nothing is kept. With --vertices it computes others, as the new edges change them.

A run that has learned labels of edges (--edge-label) predicts edges: those of its store or, with --add-edges, new ones, which pass no
messages. Their ends are vertices of the store, or new ones of --add-vertices.

--changed computes the new vertices and all others whose prediction can differ: those that new edges lead to, and from there one hop for
each layer. The columns old_class, old_probability, … say what was predicted before, and are empty for a new vertex. The column change is
the largest difference of a probability or value. --sort change puts the largest first.

With --since the addition is what the graph has more than an earlier store: weft append --out makes a later one.

With --vertices it computes the listed vertices only, and reads only the part of the graph that they depend on, layer by layer.
Their rows are in the order of the list and have the same bits as in a prediction of all vertices (and --halo rows). Beside
preds.npy a second file, preds.vertices.npy, has their ids.`,
		Example: `  weft predict runs/first --out runs/preds.npy
  weft predict runs/first --out runs/preds.csv
  weft predict runs/churn --out runs/list.csv --sort yes --unlabelled --top 100 --columns name,probabilities
  weft predict runs/first --out runs/unsure.csv --columns class,probabilities,margin --sort margin --top 100
  weft predict runs/first stores/newer --out runs/preds.npy --embeddings runs/hidden.npy
  weft predict runs/first --embeddings runs/hidden.parquet
  weft predict runs/first --vertices some.csv --out runs/some.npy
  weft predict runs/first --vertices C-00001,C-00002 --out runs/two.csv
  weft predict runs/fraud --add-edges new.csv --out scores.csv --sort yes
  weft predict runs/first --add-vertices new.csv --add-edges new-edges.csv --out runs/new.csv
  weft predict runs/first --add-edges new-edges.csv --changed --out runs/changed.csv --sort change
  weft predict runs/first stores/newer --since stores/older --changed --out runs/changed.csv
  weft predict --init weights.safetensors --config model.yaml stores/mine --out runs/preds.npy`,
		Annotations:       map[string]string{cli.JoinsRanks: ""},
		ValidArgsFunction: cli.CompleteInOrder(p.completeFirst, cli.CompleteGraph),
		Args:              p.tables.Arguments(0, 2),
		RunE:              func(cmd *cobra.Command, args []string) error { return p.run(cmd, args) },
	}
	flags := cmd.Flags()
	p.settings.Add(flags)
	for _, s := range setting.All() {
		if s.Group == setting.TrainingGroup && s.Name != "init" {
			flags.Lookup(s.Name).Hidden = true
		}
	}
	flags.Lookup("memory-limit").Hidden = true // it is refused: predict makes no plan
	flags.Lookup("init").Usage = "safetensors `file` with the weights to predict with, or the folder of a run"
	p.files.add(flags)
	p.answers.add(flags)
	addThreshold(flags, &p.threshold)
	flags.StringVar(&p.vertices, "vertices", "", "`file` (.npy or text, plain or gzip) of the "+
		"vertices to predict: names, ids, or a mask; or names or ids between commas (default: all)")
	p.added.add(flags)
	flags.BoolVar(&p.bare, "unlabelled", false, "predict only vertices without a label")
	flags.BoolVar(&p.changed, "changed", false, "predict, without and with what is added, all "+
		"vertices whose prediction can differ")
	p.tables.Add(cmd, true)
	ui.AddQuiet(flags)
	return cmd
}

// readsTables reports whether the graph is a list of edges with tables of vertices.
func (p *predictCommand) readsTables() bool { return p.tables.Flags.Lookup("vertices-from").Changed }

// completeFirst completes the first argument: a run's folder, or with --init the graph.
func (p *predictCommand) completeFirst(cmd *cobra.Command, args []string,
	begun string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	if cmd.Flags().Changed("init") {
		return cli.CompleteGraph(cmd, args, begun)
	}
	return cli.CompleteRun(cmd, args, begun)
}

func (p *predictCommand) run(cmd *cobra.Command, args []string) error {
	p.files.listed = p.vertices != "" || p.bare || p.added.there()
	asked, err := p.prepare(args)
	if p.readsTables() || !p.added.there() { // otherwise the flags are for the additions
		asked.Tables = p.tables
	}
	return cli.AsRank(cmd, asked.Options, err, func(r cli.Ranks) error { return p.predict(cmd, r, &asked) })
}

// predict computes what is asked for, and writes it.
func (p *predictCommand) predict(cmd *cobra.Command, r cli.Ranks, asked *predictRequest) error {
	if err := p.divideTables(cmd, r, asked); err != nil {
		return err
	}
	opened, err := open(cmd, r, &asked.Request, asked.state, p.files.outputs(), p.added.later)
	if err != nil {
		return err
	}
	defer opened.Close()
	p.settings.SayDevice(cmd.ErrOrStderr())
	shown := ui.NewPhases(ui.BesideResults(cmd))
	defer shown.Erase()
	if err := p.choose(cmd, opened, asked, shown); err != nil {
		return err
	}
	var d *predicted
	err = r.OnFirst(func() (err error) {
		d, err = p.describe(cmd.ErrOrStderr(), opened, asked)
		return err
	})
	if err != nil {
		return err
	}
	started := time.Now()
	result, err := p.compute(cmd, opened, asked, d, shown)
	shown.Erase()
	if err = errors.Join(err, d.close()); err != nil || !r.First() {
		return p.failed(err, opened, &asked.Request)
	}
	if path := p.files.vertexFile(); path != "" {
		if err := rundir.WriteVertices(path, opened.Job.Vertices); err != nil {
			return err
		}
	}
	show, file := cmd.OutOrStdout(), p.files.main()
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
		show = cmd.ErrOrStderr() // the logits may have gone to standard output
	}
	fmt.Fprintf(show, "%s: %s, in %s\n", file, d.told(p.files.out, result), ui.Duration(time.Since(started)))
	if decision := d.decision(); decision != "" {
		fmt.Fprintln(show, ui.Printable(decision))
	}
	if p.changed {
		d.showChanged(show, opened, result)
	}
	showNeeds(show, result.Needs)
	return d.showScores(show)
}

// divideTables divides tables, given in place of the run's graph, by the run's split by a column of edges.
// Their store, which the import makes on the way, tells whether they have that column.
func (p *predictCommand) divideTables(cmd *cobra.Command, r cli.Ranks, asked *predictRequest) error {
	if err := asked.CheckTables(); err != nil {
		return r.Together(err)
	}
	if !p.readsTables() {
		return nil
	}
	o, store := &asked.Options.Options, ""
	err := r.OnFirst(func() (err error) {
		if store, err = data.Resolve(cmd.Context(), asked.Source(), cmd.ErrOrStderr()); err != nil {
			return err
		}
		return asked.CheckDivides(o, store)
	})
	if err == nil && !r.First() {
		store, err = data.Resolve(cmd.Context(), asked.Source(), io.Discard)
	}
	if err == nil {
		err = asked.DivideStore(o, store)
	}
	return r.Together(err)
}

// say prints what was found about an addition, each as a note or a warning.
func say(to io.Writer, as string, found []string) {
	for _, line := range found {
		fmt.Fprintf(to, "weft: %s: %s\n", as, ui.Printable(line))
	}
}

// choose sets the job's Query: the rows that are asked for, of the graph with its additions.
func (p *predictCommand) choose(cmd *cobra.Command, s *session.Session, asked *predictRequest,
	shown *ui.Phases,
) error {
	var query train.Query
	if p.added.there() {
		var err error
		query, err = p.append(cmd, s, asked, shown)
		if err = s.Together(err); err != nil {
			return err
		}
	}
	if s.Job.Query = query; asked.Options.Task == task.Edge || p.vertices == "" && !p.bare {
		return nil
	}
	counts := s.Counts()
	own := counts.Types[0].Vertices
	if query.Appended != nil {
		own = query.Appended.Counts[0]
	}
	list, err := p.readVertices(cmd.ErrOrStderr(), s, query.Vertices, own)
	if err = s.Together(err); err != nil {
		return err
	}
	s.Job.Vertices = list
	sum := fmt.Sprintf("%x", sha256.Sum256(comm.Bytes(list)))
	return s.Agree(sum, func(rank int, _, _ string) error {
		return refusal.Errorf("--vertices %s: rank %d reads other vertices than rank 0: all machines need "+
			"the same file", p.vertices, rank)
	})
}

// compute computes the predictions, which d writes to files.
func (p *predictCommand) compute(
	cmd *cobra.Command, s *session.Session, asked *predictRequest, d *predicted, shown *ui.Phases,
) (result *train.Prediction, err error) {
	ctx, stop := s.UntilSignal(cmd, "; "+p.files.main()+" is not written", func() {
		if s.First() {
			fmt.Fprintln(os.Stderr, ui.OneLine(p.notWritten()))
		}
	})
	defer stop()
	out, embeddings := p.files.out, p.files.embeddings
	s.Job.OnEmbeddings = func(rows train.Rows) error { return d.embed(embeddings, out, rows) }
	s.Job.OnLogits = func(rows train.Rows) error { return d.write(out, rows) }
	if p.changed {
		shown.Show("predicting without what is added", 0, 0)
		if err := d.predictBefore(ctx, s, asked.state); err != nil {
			return nil, err
		}
	}
	if s.First() {
		shown.Show("predicting", 0, 0)
	}
	return s.Job.Predict(ctx, asked.state, p.files.need(slices.Contains(asked.answers, predictions.Hidden)))
}

// failed is the error of a prediction; nil: there is none.
func (p *predictCommand) failed(err error, s *session.Session, asked *session.Request) error {
	all := failed(asked, s, err, p.notWritten())
	if o := asked.Options; refusal.Weights.In(err) && asked.Run == "" && o.Uses("output-heads") &&
		o.OutputHeads != o.Heads {
		return fmt.Errorf("%w The last layer of PyG's model has as many heads as the others: give "+
			"--output-heads %d", all, o.Heads)
	}
	return all
}

// notWritten is the error of a prediction that a signal ended.
func (p *predictCommand) notWritten() error {
	return fmt.Errorf("%w; %s is not written", launch.ErrInterrupted, p.files.main())
}

// readVertices reads the list of vertices to predict. Without a list it takes the added vertices; nil: all.
// There are vertices vertices.
func (p *predictCommand) readVertices(warnings io.Writer, s *session.Session, added []int32, vertices int) (
	[]int32, error,
) {
	g, err := s.Graph()
	if err != nil {
		return nil, err
	}
	if p.vertices == "" {
		return unlabelled(g, graph.Target{}, added)
	}
	list, header, err := tables.Vertices(p.vertices, p.added.names(g, 0), vertices)
	if err != nil {
		return nil, fmt.Errorf("--vertices %w", err) // the error begins with the list
	}
	if header != "" {
		fmt.Fprintf(warnings, "weft: note: --vertices %s: line 1, %.60q, is the name of no vertex, and "+
			"taken for a header\n", ui.Printable(p.vertices), header)
	}
	if p.bare {
		return unlabelled(g, graph.Target{}, list)
	}
	return list, nil
}

// unlabelled are the rows of a list (nil: all rows) that have no label. It refuses a list that has none.
func unlabelled(g *graph.Graph, target graph.Target, list []int32) (bare []int32, err error) {
	noun, labels, rows := target.Kind.Noun(), &g.Frame(target).Labels, g.Rows(target)
	if target.Kind == graph.VertexRows && !labels.There() {
		return nil, refusal.Errorf("--unlabelled: the graph has no labels; leave it out, and all vertices " +
			"are predicted")
	}
	count := len(list)
	if list == nil {
		count = rows
	}
	err = g.Guard(func() error {
		for k := range count {
			row := int32(k)
			if list != nil {
				row = list[k]
			}
			if int(row) >= rows || !labels.Labelled(int64(row)) { // additions have no labels
				bare = append(bare, row)
			}
		}
		return nil
	})
	if err == nil && bare == nil {
		err = refusal.Errorf("--unlabelled: each of %s has a label; leave it out",
			ui.Counted(count, noun.One, noun.Many))
	}
	return bare, err
}
