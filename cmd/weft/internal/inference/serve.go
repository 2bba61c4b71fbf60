package inference

import (
	"cmp"
	"fmt"
	"log"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/data"
	"weft/cmd/weft/internal/session"
	"weft/cmd/weft/internal/ui"
	"weft/internal/refusal"
	"weft/serve"
	"weft/train/setting"
	"weft/train/task"
)

type serveCommand struct {
	settings cli.SettingFlags
	port     int
	listen   string
	queue    int
	hosts    []string
	// threshold is as in predictCommand.
	threshold string
}

// NewServe makes the command serve.
func NewServe() *cobra.Command { return new(serveCommand).command() }

func (s *serveCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve RUN [STORE]",
		Short: "answer requests for predictions over HTTP, with the weights of a run",
		Long: `serve answers POST /predict with predictions of some vertices, to the same bits as weft predict. The graph and the weights stay open,
and an inference reads only what the vertices depend on. The graph is the run's own, or another one with the same features.

A request is a JSON object. Its vertices are ids: names where the graph has them, else numbers. Its columns choose what the answer
has: class, probability, margin, entropy, probabilities and embedding; value of a run that predicts these. The vertices of new are added
to the graph for this answer alone, with their columns or features and their edges. A run that has learned labels of edges predicts
edges: those of the list edges, each an object with its ends and its columns by their names, or the number of an edge of the store. GET /healthz says whether requests are
taken, and GET /metrics has figures for Prometheus.

One core reads and writes requests. Each other one, or as many threads as --threads says, computes answers. Requests that find none wait.
With --device cuda one answer is computed at a time, on the card.
Every other answer is that to the smallest of them, so that it does not wait for many large ones. If more than --queue wait, the largest
is answered 503. So are all requests once a file of the store has changed: restart serve then. A signal
(SIGINT or SIGTERM) ends serve once all requests that it has taken are answered, or 8 s later.

A request names this machine by an address, as localhost, or by a name of --host. Where --listen is an address of this machine alone, as
127.0.0.1 is, no other address may be named. So a web page elsewhere, whose own name leads here, gets no answer.`,
		Example: `  weft serve runs/first
  weft serve runs/first stores/newer --port 9000
  weft serve runs/first --listen 0.0.0.0 --threads 4
  weft serve runs/first --listen 0.0.0.0 --host gpu1.example
  curl -H content-type:application/json \
      -d '{"vertices": [0, 7]}' localhost:8080/predict
  curl -H content-type:application/json \
      -d '{"edges": [{"payer": "c1", "payee": "c7", "amount": 12.5}]}' localhost:8080/predict`,
		ValidArgsFunction: cli.CompleteInOrder(cli.CompleteRun, cli.CompleteGraph),
		Args:              cli.Arguments(1, 2),
		RunE:              func(cmd *cobra.Command, args []string) error { return s.run(cmd, args) },
	}
	f := cmd.Flags()
	addThreshold(f, &s.threshold)
	f.IntVar(&s.port, "port", 8080, "`number` of the TCP port, 0 takes a free one")
	f.StringVar(&s.listen, "listen", "127.0.0.1", "`address` to listen on; 0.0.0.0 and :: are all of "+
		"this machine's, where anybody who reaches it may ask")
	f.StringArrayVar(&s.hosts, "host", nil, "`name` by which requests may call this machine beside its "+
		"addresses and localhost; repeatable")
	f.IntVar(&s.queue, "queue", 256, "`number` of requests that wait at most; of more, the largest is answered 503")
	s.settings.AddThose(f, func(option setting.Setting) bool {
		return option.Name == "threads" || option.Name == "device"
	})
	return cmd
}

func (s *serveCommand) run(cmd *cobra.Command, args []string) (err error) {
	if err := s.check(); err != nil {
		return err
	}
	p, err := openPass(cmd, args, &s.settings, data.TablesGiven{}, nil, func(o *setting.Resolved) error {
		if mean := o.OverAll(); mean != "" {
			return refusal.Errorf("serve %s: %s takes its mean over all vertices, and so a prediction depends on all; "+
				"weft predict %s predicts all", args[0], mean, refusal.ShellWord(args[0]))
		}
		return nil
	})
	if err != nil {
		return err
	}
	defer p.opened.Close()
	s.settings.SayDevice(cmd.ErrOrStderr())
	model, err := s.model(cmd, &p)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, model.Predictor.Close()) }()
	return s.serve(cmd, p.opened, model)
}

// check refuses flags that make no sense.
func (s *serveCommand) check() error {
	if err := cli.CheckPort("port", s.port); err != nil {
		return err
	}
	if s.queue < 1 {
		return refusal.Errorf("--queue %d: the number of requests that may wait is 1 or more", s.queue)
	}
	for _, host := range s.hosts {
		if host == "" || strings.ContainsAny(host, "/* ") {
			return refusal.Errorf("--host %s: give a name alone, as in --host gpu1.example", host)
		}
	}
	return nil
}

// model makes the model that answers.
func (s *serveCommand) model(cmd *cobra.Command, p *pass) (m serve.Model, err error) {
	asked, noun := p.asked, p.target.Kind.Noun()
	warnOfWeights(cmd.ErrOrStderr(), asked.Options, asked.Run, asked.Weighted, p.opened.Store, p.graph)
	if asked.Options.Task != task.Link && !p.standFor() {
		return m, refusal.Errorf("serve %s: no graph is there whose labels say what the predictions stand "+
			"for; give the store that the run was trained on", asked.Run)
	}
	p.scores()
	if err := p.decide(s.threshold); err != nil {
		return m, err
	}
	m = serve.Model{
		About: fmt.Sprintf("weft %s: %s of %s, on %s of %s", cli.Version, asked.Options.Model, asked.Run,
			ui.Counted(p.graph.Rows(p.target), noun.One, noun.Many), p.opened.Store),
		Graph: p.graph, Table: p.Table,
	}
	m.Predictor, err = p.opened.Job.Predictor(cmd.Context(), p.weights)
	return m, failed(asked, p.opened, err, err)
}

// workers is how many inferences are computed at a time: as many as --threads says, or else one on each core
// but one. The last core reads and writes requests, so that answers do not wait.
func (s *serveCommand) workers(cmd *cobra.Command, threads int) int {
	if cmd.Flags().Changed("threads") {
		return threads
	}
	return max(1, threads-1)
}

// options are the options of the server for a model that takes so many threads.
func (s *serveCommand) options(cmd *cobra.Command, threads int) serve.Options {
	return serve.Options{
		Workers: s.workers(cmd, threads), Queue: s.queue, OnlyLocal: serve.IsLocal(s.listen), Hosts: s.hosts,
		Log: log.New(cmd.ErrOrStderr(), "weft: ", 0),
	}
}

// serve answers requests until a signal comes.
func (s *serveCommand) serve(cmd *cobra.Command, opened *session.Session, m serve.Model) error {
	ctx, stop := opened.UntilSignal(cmd, "", nil)
	defer stop()
	listener, err := net.Listen("tcp", net.JoinHostPort(s.listen, strconv.Itoa(s.port)))
	if err != nil {
		return refusal.Errorf("--listen %s --port %d: %w; name another address or port, or port 0 for a "+
			"free one", s.listen, s.port, err)
	}
	server := serve.New(m, s.options(cmd, m.Predictor.Threads()))
	out, began := cmd.OutOrStdout(), time.Now()
	fmt.Fprintf(out, "http://%s answers for %s; interrupt to end\n", listener.Addr(), m.About)
	err = server.Serve(ctx, listener)
	fmt.Fprintf(out, "%s answered in %s\n", ui.Counted(server.Answered(), "request", "requests"),
		ui.Duration(time.Since(began)))
	return err
}
