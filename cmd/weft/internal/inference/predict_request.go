package inference

import (
	"cmp"
	"slices"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/session"
	"weft/internal/refusal"
	"weft/nn"
	"weft/train/rundir"
	"weft/train/setting"
	"weft/train/task"
)

// predictRequest is a request to predict, once its arguments are parsed.
type predictRequest struct {
	session.Request
	answersAsked
	state nn.State // the weights
}

// prepare reads the request, checks that its results can be written, and reads the weights.
func (p *predictCommand) prepare(args []string) (asked predictRequest, err error) {
	if asked.Request, err = p.understand(args); err != nil {
		return asked, err
	}
	if err := p.files.check(p.inputs(&asked.Request)); err != nil {
		return asked, err
	}
	if err := p.files.checkEndings(); err != nil {
		return asked, err
	}
	asked.answersAsked, err = p.answers.parse(p.files.out, asked.Options.Task == task.Edge, p.added.there())
	if err != nil {
		return asked, err
	}
	asked.state, err = asked.ReadWeights()
	return asked, err
}

// inputs are the files that are read in addition to the graph.
func (p *predictCommand) inputs(asked *session.Request) []string {
	files := slices.Concat([]string{asked.Weights, p.settings.Config, p.vertices}, p.added.files())
	if asked.Run != "" {
		files = append(files, rundir.Paths(asked.Run)...)
	}
	return files
}

// understand finds the settings, the weights and the graph. A run's directory has all three. --init names
// only the weights.
func (p *predictCommand) understand(args []string) (asked session.Request, err error) {
	for _, g := range p.settings.Given {
		if g.Setting.Name == "memory-limit" {
			return asked, refusal.Errorf("--memory-limit %s: predict does not plan its memory; leave it "+
				"out", g.Text)
		}
	}
	if err := cmp.Or(p.added.check(p.readsTables()), p.checkChanged()); err != nil {
		return asked, err
	}
	options, err := p.settings.Merge()
	if err != nil {
		return asked, err
	}
	switch {
	case options.Init != "" && len(args) == 1:
		asked = session.Request{Weights: options.Init, Graph: args[0]}
	case options.Init != "":
		return asked, refusal.Errorf("predict --init %s: name the one graph to predict on, and no run",
			options.Init)
	case p.settings.Config != "":
		return asked, refusal.Errorf("--config %s: a run has its own settings; leave --config out, or "+
			"give weights with --init", p.settings.Config)
	case len(args) == 0:
		return asked, refusal.Errorf("predict: name a run's directory, or weights with --init and a graph")
	default:
		if asked, options, err = p.ofRun(args); err != nil {
			return asked, err
		}
		if p.added.there() { // one worker with the whole graph computes it
			options.Partitions, options.Offload = 0, ""
		}
	}
	used := p.settings.Names(func(s setting.Setting) bool { return s.Group != setting.TrainingGroup })
	if asked.Options, err = cli.Resolved(&options, used...); err != nil || !p.files.listed {
		return asked, err
	}
	if asked.Options.Task == task.Edge {
		p.files.listed = false
		return asked, p.checkEdges()
	}
	if p.added.there() {
		if err := asked.AdmitsAddition(); err != nil {
			return asked, err
		}
	}
	asked.Graph = p.added.to(asked.Graph)
	return asked, asked.Options.CheckSome()
}

// ofRun is what a run asks for, with given settings in place of its own.
func (p *predictCommand) ofRun(args []string) (asked session.Request, o setting.Options, err error) {
	if asked, o, _, err = session.RequestOf(args); err != nil {
		return asked, o, err
	}
	if err := p.settings.Override(&o); err != nil {
		return asked, o, err
	}
	return asked, o, asked.HasGraph("predict", args)
}
