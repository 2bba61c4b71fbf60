package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weft/comm"
	"weft/gnn"
	"weft/graph"
	"weft/graph/columns"
	"weft/graph/edgelist"
	"weft/graph/tables"
	"weft/internal/launch"
	"weft/internal/refusal"
	"weft/nn"
	"weft/parallel/mfg"
	"weft/train"
	"weft/train/predictions"
	"weft/train/rundir"
	"weft/train/setting"
)

type predictCommand struct {
	settings   settingFlags
	tables     tablesGiven
	out        string
	embeddings string
	vertices   string         // those to predict, or a file of them; empty: all, or the new ones
	add        tables.Options // new vertices and edges
	since      string         // the store before an addition that the graph has; empty: none
	later      string         // that graph, in whose place since is opened
	new        []string       // the names of the new vertices
	changed    bool           // predict what is added can change, with and without it
	columns    []string
	sort       string
	top        int
}

func newPredict() *cobra.Command {
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

--columns chooses what a table says: class, probability (of that class), margin (the largest probability less the second largest),
entropy (of the probabilities, in nats), probabilities (of all classes or labels), value, embedding. --sort orders its rows by a column,
and --top keeps the first. Sorted by margin or probability, which ascend, or by entropy, which descends, the most uncertain vertices come
first; by value the largest. Vertices of equal numbers stay in their order.

--add-vertices and --add-edges predict vertices that came later: those of the table, by the ids of its column, from the store with them and
with the edges. Nothing is kept. With --vertices it computes others, as the new edges change them.

--changed computes the new vertices and all others whose prediction can differ: those that new edges lead to, and from there one hop for
each layer. The columns old_class, old_probability, … say what was predicted before, and are empty for a new vertex. The column change is
the largest difference of a probability or value. --sort change puts the largest first.

With --since the addition is what the graph has more than an earlier store: weft append --out makes a later one.

With --vertices it computes the listed vertices only, and reads only the part of the graph that they depend on, layer by layer.
Their rows are in the order of the list and have the same bits as in a prediction of all vertices (and --halo rows). Beside
preds.npy a second file, preds.vertices.npy, has their ids.`,
		Example: `  weft predict runs/first --out runs/preds.npy
  weft predict runs/first --out runs/preds.csv
  weft predict runs/first --out runs/unsure.csv --columns class,probabilities,margin --sort margin --top 100
  weft predict runs/first stores/newer --out runs/preds.npy --embeddings runs/hidden.npy
  weft predict runs/first --embeddings runs/hidden.parquet
  weft predict runs/first --vertices some.csv --out runs/some.npy
  weft predict runs/first --vertices C-00001,C-00002 --out runs/two.csv
  weft predict runs/first --add-vertices new.csv --add-edges new-edges.csv --out runs/new.csv
  weft predict runs/first --add-edges new-edges.csv --changed --out runs/changed.csv --sort change
  weft predict runs/first stores/newer --since stores/older --changed --out runs/changed.csv
  weft predict --init weights.safetensors --config model.yaml stores/mine --out runs/preds.npy`,
		Annotations:       map[string]string{joinsRanks: ""},
		ValidArgsFunction: completeInOrder(p.completeFirst, completeGraph),
		Args:              arguments(0, 2),
		RunE:              func(cmd *cobra.Command, args []string) error { return p.run(cmd, args) },
	}
	p.settings.add(cmd.Flags())
	for _, s := range setting.All() {
		if s.Group == setting.TrainingGroup && s.Name != "init" {
			cmd.Flags().Lookup(s.Name).Hidden = true
		}
	}
	cmd.Flags().Lookup("memory-limit").Hidden = true // refused: predict makes no plan
	cmd.Flags().Lookup("init").Usage = "safetensors `file` with the weights to predict with"
	cmd.Flags().StringVar(&p.out, "out", "", "`file` for the predictions: .npy (logits, values or "+
		"embeddings, float32, vertices × columns), .csv or .parquet; an existing file is overwritten")
	cmd.Flags().StringSliceVar(&p.columns, "columns", nil, "`names` of what a table says of each vertex: "+
		"class, probability, margin, entropy, probabilities, value, embedding, change (default: "+
		"class,probability; of several labels probabilities; of values value)")
	cmd.Flags().StringVar(&p.sort, "sort", "", "`column` by which the rows of a table are sorted: margin or "+
		"probability, ascending; entropy, value or change, descending; ties by vertex (default: the "+
		"graph's order)")
	cmd.Flags().IntVar(&p.top, "top", 0, "with --sort the `number` of rows, the first ones (default: all)")
	cmd.Flags().StringVar(&p.embeddings, "embeddings", "", embeddingsUsage+"; --out may then be left out")
	cmd.Flags().StringVar(&p.vertices, "vertices", "", "`file` (.npy or text, plain or gzip) of the "+
		"vertices to predict: names, ids, or a mask; or names or ids between commas (default: all)")
	addFlags(cmd.Flags(), &p.add)
	cmd.Flags().StringVar(&p.since, "since", "", "the `store` before an addition that the graph has: as "+
		"--add-vertices and --add-edges, for what it has besides")
	cmd.Flags().BoolVar(&p.changed, "changed", false, "predict, without and with what is added, all "+
		"vertices whose prediction can differ")
	p.tables.add(cmd.Flags(), true)
	addQuiet(cmd.Flags())
	return cmd
}

// readsTables reports whether the graph is a list of edges with tables of vertices.
func (p *predictCommand) readsTables() bool { return p.tables.flags.Lookup("vertices-from").Changed }

// completeFirst completes the first argument: a run's folder, or with --init the graph.
func (p *predictCommand) completeFirst(cmd *cobra.Command, args []string,
	begun string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	if cmd.Flags().Changed("init") {
		return completeGraph(cmd, args, begun)
	}
	return completeRun(cmd, args, begun)
}

// request is what is asked of predict, once its arguments are understood.
type request struct {
	options *setting.Resolved
	run     string         // its directory; empty: --init names the weights
	learned learnedClasses // the classes of the run; its store is empty where it is not known
	weights string
	columns columns.ByType // that the weights were trained on; nil: they do not say
	graph   string         // dataset or store
	tables  tablesGiven    // of a graph in the place of the run's
	// changed says that the run's own graph has other vertices than it was trained on. The split that was drawn
	// of these is then not drawn again: training vertices would be among the test vertices.
	changed bool
	// weighted says that the edges that the run trained on have weights.
	weighted bool
	answers  []predictions.Answer // of a table; nil: those by default
	order    predictions.Order
}

// source is the graph, with the flags of its tables, which are read like those that the weights were trained
// on.
func (r *request) source() source {
	s := r.tables.of(r.graph)
	if r.columns != nil && s.given("vertices-from") && !s.given(columnsOfFlag) {
		s.like = cmp.Or(r.run, r.weights)
	}
	return s
}

// requestOf is what a run asks for by itself, and its settings: predictions of its own graph, or of the one
// that args name after the run.
func requestOf(args []string) (asked request, o setting.Options, run rundir.Run, err error) {
	if run, o, asked.weights, err = rundir.Read(args[0]); err != nil {
		return asked, o, run, err
	}
	asked.run, asked.graph = args[0], run.Store
	asked.learned = learnedClasses{run.Store, run.ClassNames}
	asked.weighted = run.Summary.Graph.Weighted
	if len(args) == 2 {
		asked.graph = args[1]
	}
	if o.Split.Rule != "" { // it divides the run's own graph, as it was
		own := len(args) == 1 || sameFile(args[1], run.Store)
		if n, err := graph.VerticesIn(run.Store); own && err == nil && n != run.Summary.Graph.Vertices {
			asked.changed = true // if it cannot be read, who opens it says why
		}
		if !own || asked.changed {
			o.Split.Rule = ""
		}
	}
	return asked, o, run, nil
}

func (p *predictCommand) run(cmd *cobra.Command, args []string) error {
	asked, weights, err := p.prepare(args)
	if p.readsTables() || !p.adds() { // else the flags are of what is added
		asked.tables = p.tables
	}
	return asRank(cmd, asked.options, err, func(r ranks) error { return p.predict(cmd, r, &asked, weights) })
}

// prepare reads the request, checks that its results can be written, and reads the weights.
func (p *predictCommand) prepare(args []string) (asked request, weights nn.State, err error) {
	if asked, err = p.understand(args); err != nil {
		return asked, nil, err
	}
	inputs := p.inputs(&asked)
	err = p.outputs(func(flag, path string) error { return checkOutput(flag, path, inputs...) })
	if err != nil {
		return asked, nil, err
	}
	if asked.answers, asked.order, err = p.answers(); err != nil {
		return asked, nil, err
	}
	for _, other := range []string{p.out, p.beside()} {
		if p.embeddings != "" && other != "" && sameFile(other, p.embeddings) {
			return asked, nil, refusal.Errorf("--embeddings %s: the file of --out; name another",
				p.embeddings)
		}
	}
	if weights, err = nn.ReadState(asked.weights); err != nil && asked.run != "" {
		err = fmt.Errorf("%w; put the weights of the run there, or train again: weft train STORE --config %s",
			err,
			refusal.ShellWord(filepath.Join(asked.run, "run.yaml")))
	}
	if err == nil {
		asked.columns, err = rundir.ColumnsOf(asked.weights)
	}
	return asked, weights, err
}

// answers reads what a table says, and in which order. It refuses endings that name no format, and what is
// for tables alone.
func (p *predictCommand) answers() (asked []predictions.Answer, order predictions.Order, err error) {
	for _, file := range [][2]string{{"out", p.out}, {"embeddings", p.embeddings}} {
		if file[1] == "" {
			continue
		}
		if err := predictions.CheckEnding(file[0], file[1]); err != nil {
			return nil, order, err
		}
	}
	if asked, err = predictions.ParseAnswers(p.columns); err != nil {
		return nil, order, err
	}
	if order, err = predictions.ParseOrder(p.sort, p.top); err != nil {
		return nil, order, err
	}
	flag := "--columns " + strings.Join(p.columns, ",")
	switch {
	case asked == nil && order.By == "":
		return nil, order, nil
	case asked == nil:
		flag = "--sort " + p.sort
	}
	switch {
	case p.out == "":
		return nil, order, refusal.Errorf("%s: is for the table of --out; give --out FILE.csv or "+
			"FILE.parquet, too", flag)
	case predictions.IsMatrix(p.out):
		return nil, order, refusal.Errorf("%s: is for tables, and %s is a NumPy array; give --out FILE.csv "+
			"or FILE.parquet", flag, p.out)
	}
	return asked, order, nil
}

// outputs calls check for each output file until one is refused.
func (p *predictCommand) outputs(check func(flag, path string) error) (err error) {
	if p.out != "" || p.embeddings == "" {
		err = check("out", p.out)
	}
	if beside := p.beside(); err == nil && beside != "" {
		err = check("out", beside)
	}
	if err == nil && p.embeddings != "" {
		err = check("embeddings", p.embeddings)
	}
	return err
}

// main is the file of the predictions; without them, that of the embeddings.
func (p *predictCommand) main() string { return cmp.Or(p.out, p.embeddings) }

// beside is the file for the ids of the listed vertices. It is empty without a list, or if the main file is a
// table, a pipe or a link.
func (p *predictCommand) beside() string {
	of := p.main()
	if info, err := os.Lstat(of); p.vertices == "" && !p.adds() || of == "" || !predictions.IsMatrix(of) ||
		err == nil && !info.Mode().IsRegular() {
		return ""
	}
	return strings.TrimSuffix(of, filepath.Ext(of)) + ".vertices.npy"
}

// inputs are the files read besides the graph.
func (p *predictCommand) inputs(asked *request) []string {
	files := slices.Concat([]string{asked.weights, p.settings.config, p.vertices}, p.add.Edges)
	for _, argument := range p.add.Vertices {
		_, path := tables.Named(argument)
		files = append(files, path)
	}
	if asked.run != "" {
		files = append(files, rundir.Paths(asked.run)...)
	}
	return files
}

// understand finds the settings, the weights and the graph. A run's directory has all three; --init names the
// weights alone.
func (p *predictCommand) understand(args []string) (asked request, err error) {
	for _, g := range p.settings.given {
		if g.setting.Name == "memory-limit" {
			return asked, refusal.Errorf("--memory-limit %s: predict makes no plan to hold against it; "+
				"leave it out", g.text)
		}
	}
	if err := cmp.Or(p.checkAdded(), p.checkChanged()); err != nil {
		return asked, err
	}
	given, err := p.settings.merge()
	if err != nil {
		return asked, err
	}
	switch {
	case given.Init != "" && len(args) == 1:
		asked = request{weights: given.Init, graph: args[0]}
	case given.Init != "":
		return asked, refusal.Errorf("predict --init %s: name the one graph to predict on, and no run",
			given.Init)
	case p.settings.config != "":
		return asked, refusal.Errorf("--config %s: a run has its own settings; leave --config out, or "+
			"give weights with --init",
			p.settings.config)
	case len(args) == 0:
		return asked, refusal.Errorf("predict: name a run's directory, or weights with --init and a graph")
	default:
		if asked, given, _, err = requestOf(args); err != nil {
			return asked, err
		}
		if err := p.settings.override(&given); err != nil {
			return asked, err
		}
		switch _, err := os.Stat(asked.graph); {
		case len(args) == 2:
		case asked.graph == "":
			return asked, refusal.Errorf("%s names no store, as the graph was made in memory; give one: "+
				"weft predict %s STORE",
				filepath.Join(args[0], "run.json"), args[0])
		case err != nil:
			return asked, refusal.Errorf("%s names %s, which is not there; give the store: weft "+
				"predict %s STORE",
				filepath.Join(args[0], "run.json"), asked.graph, args[0])
		}
	}
	used := p.settings.names(func(s setting.Setting) bool { return s.Group != setting.TrainingGroup })
	if asked.options, err = resolved(&given, used...); err != nil || p.vertices == "" && !p.adds() {
		return asked, err
	}
	if p.adds() {
		if err := asked.admitsAddition(); err != nil {
			return asked, err
		}
	}
	if p.since != "" {
		p.later, asked.graph = asked.graph, p.since
	}
	return asked, asked.options.CheckSome()
}

func (p *predictCommand) predict(cmd *cobra.Command, r ranks, asked *request, weights nn.State) error {
	opened, err := r.open(cmd.Context(), asked.source(), asked.options, cmd.ErrOrStderr(),
		func(store string) error {
			return p.outputs(func(flag, path string) error {
				err := checkApartFromGraph(flag, path, asked.graph, store)
				if err == nil && p.since != "" {
					err = checkApartFromGraph(flag, path, p.later, p.later)
				}
				return err
			})
		}, func(g *graph.Graph) error {
			return asked.fits(&train.Job{Graph: g}, weights, io.Discard)
		})
	if err != nil {
		return err
	}
	defer opened.close()
	job := opened.job
	if err = asked.fits(job, weights, cmd.ErrOrStderr()); err == nil {
		err = asked.matchClasses(opened, cmd.ErrOrStderr())
	}
	if err := r.Together(err); err != nil {
		return err
	}
	shown := newStages(besideResults(cmd))
	defer shown.erase()
	if p.adds() {
		p.add.Progress = shown.show
		err := r.Together(p.append(cmd.Context(), opened, weights))
		if shown.erase(); err != nil {
			return err
		}
		added := job.Appended.Added
		for _, note := range slices.Concat(added.Notes, oneWays(job.Graph, added.Edges)) {
			fmt.Fprintf(cmd.ErrOrStderr(), "weft: warning: %s\n", printable(note))
		}
	}
	if p.vertices != "" {
		counts := opened.counts()
		own := counts.Own()
		if job.Appended != nil {
			own = job.Appended.Counts[0]
		}
		if job.Vertices, err = p.readVertices(cmd.ErrOrStderr(), opened, own); err != nil {
			return err
		}
	}
	var d *predicted
	err = r.OnFirst(func() (err error) {
		d, err = p.describe(cmd.ErrOrStderr(), opened, asked, weights)
		return err
	})
	if err != nil {
		return err
	}
	ctx, stop := opened.untilSignal(cmd, "; "+p.main()+" is not written", func() {
		if r.First() {
			fmt.Fprintln(os.Stderr, oneLine(p.notWritten()))
		}
	})
	defer stop()
	started := time.Now()
	outputs := train.Logits
	switch hidden := slices.Contains(asked.answers, predictions.Hidden); {
	case p.out == "":
		outputs = train.Embeddings
	case p.embeddings != "" || hidden:
		outputs = train.WithEmbeddings
	}
	job.OnEmbeddings = func(rows train.Rows) error { return d.embed(p.embeddings, p.out, rows) }
	job.OnLogits = func(rows train.Rows) error { return d.write(p.out, rows) }
	if p.changed {
		shown.show("predicting without what is added", 0, 0)
		err = d.predictBefore(ctx, opened, weights)
	}
	var result *train.Prediction
	if err == nil {
		if r.First() {
			shown.show("predicting", 0, 0)
		}
		result, err = job.Predict(ctx, weights, outputs)
	}
	shown.erase()
	err = errors.Join(err, d.close())
	switch {
	case refusal.Weights.In(err) && !errors.Is(err, context.Canceled):
		err = fmt.Errorf("%s: %w", asked.weights, advised(err))
		if o := asked.options; asked.run == "" && o.Uses("output-heads") && o.OutputHeads != o.Heads {
			err = fmt.Errorf("%w A last layer with as many heads as the others, as PyG's has, takes "+
				"--output-heads %d", err, o.Heads)
		}
		return err
	case err != nil:
		return opened.failed(err, p.notWritten())
	case !r.First():
		return nil
	}
	if beside := p.beside(); beside != "" {
		if err := rundir.WriteVertices(beside, job.Vertices); err != nil {
			return err
		}
	}
	show := cmd.OutOrStdout()
	if info, err := os.Stat(p.main()); err == nil && !info.Mode().IsRegular() {
		show = cmd.ErrOrStderr() // the logits may have gone to standard output
	}
	fmt.Fprintf(show, "%s: %s, in %s\n", p.main(), d.told(p.out, result), duration(time.Since(started)))
	if p.changed {
		d.showChanged(show, opened, result)
	}
	showNeeds(show, result.Needs)
	return d.showScores(show)
}

// readVertices reads the list of vertices to predict, the same on all ranks.
func (p *predictCommand) readVertices(warnings io.Writer, s *session, vertices int) ([]int32, error) {
	var (
		list   []int32
		header string
	)
	g, err := s.graph()
	if err == nil {
		if list, header, err = edgelist.Vertices(p.vertices, p.names(g), vertices); err != nil {
			err = fmt.Errorf("--vertices %w", err) // which begins with the list
		}
	}
	if header != "" {
		fmt.Fprintf(warnings, "weft: note: --vertices %s: line 1, %.60q, is the name of no vertex, and "+
			"taken for a header\n", printable(p.vertices), header)
	}
	if err := s.Together(err); err != nil {
		return nil, err
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(comm.Bytes(list)))
	return list, s.Agree(sum, func(rank int, _, _ string) error {
		return refusal.Errorf("--vertices %s: rank %d reads other vertices than rank 0: all machines need "+
			"the same file", p.vertices, rank)
	})
}

// showNeeds says what the layers of a prediction of some vertices read. Layers of equal needs share a line.
func showNeeds(to io.Writer, needs []mfg.Need) {
	for from := 0; from < len(needs); {
		end := from + 1
		for end < len(needs) && needs[end] == needs[from] {
			end++
		}
		name := fmt.Sprintf("layer %d", from+1)
		if end > from+1 {
			name = fmt.Sprintf("layers %d to %d", from+1, end)
		}
		fmt.Fprintf(to, "%s: %s, %s\n", name, counted(needs[from].Vertices, "vertex", "vertices"),
			counted(needs[from].Edges, "edge", "edges"))
		from = end
	}
}

// notWritten is the error of a prediction that a signal ended.
func (p *predictCommand) notWritten() error {
	return fmt.Errorf("%w; %s is not written", launch.ErrInterrupted, p.main())
}

// fits has the job bring the features of its graph into the form that the weights expect. It refuses weights
// that another program named otherwise, and weights for other features.
func (r *request) fits(job *train.Job, weights nn.State, notes io.Writer) error {
	err := trainedOn(job, r.columns, cmp.Or(r.run, r.weights), r.graph, notes)
	if err != nil {
		return err
	}
	whole := job.Whole()
	features := whole.FeatureColumns
	names := slices.Sorted(maps.Keys(weights))
	if len(names) > 0 && !slices.ContainsFunc(names, gnn.OfLayer) {
		return refusal.Errorf("%s: the weights hold %s, where names like convs.0.bias were expected; "+
			"rename them as PyTorch Geometric's models do",
			r.weights, names[0])
	}
	if features == 0 {
		features = r.options.NodeEmbedding // learned
	}
	n, outputs := r.options.Widths(weights)
	if more := r.options.InputColumns(features, outputs) - features; n > 0 && n != features+more {
		return refusal.Errorf("%s has %s, the weights of %s are for %s; %s",
			r.graph, counted(features, "feature", "features"), r.weights, count(n-more),
			r.sameFeatures(n-more))
	}
	return nil
}

// sameFeatures is the way out for a graph with another number of features than the weights have.
func (r *request) sameFeatures(number int) string {
	these := counted(number, "feature", "features")
	switch {
	case r.learned.store == "":
		return "give a store with the " + these + " that they were trained on, in the same order"
	case sameFile(r.learned.store, r.graph):
		return "the store has changed since " + r.run + " was trained on it: give one with the " + these +
			" of then, in the same order, or train again"
	}
	return "give a store with the " + these + " of " + r.learned.store + ", which " + r.run +
		" was trained on, in the same order"
}
