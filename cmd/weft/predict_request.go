package main

import (
	"cmp"
	"slices"

	"weft/internal/refusal"
	"weft/nn"
	"weft/train/rundir"
	"weft/train/setting"
)

// predictRequest is what is asked of predict, once its arguments are understood.
type predictRequest struct {
	request
	answersAsked
	state nn.State // the weights
}

// prepare reads the request, checks that its results can be written, and reads the weights.
func (p *predictCommand) prepare(args []string) (asked predictRequest, err error) {
	if asked.request, err = p.understand(args); err != nil {
		return asked, err
	}
	inputs := p.inputs(&asked.request)
	err = p.files.each(func(flag, path string) error { return checkOutput(flag, path, inputs...) })
	if err != nil {
		return asked, err
	}
	if err := p.files.checkEndings(); err != nil {
		return asked, err
	}
	if asked.answersAsked, err = p.answers.parse(p.files.out); err != nil {
		return asked, err
	}
	if err := p.files.checkApart(); err != nil {
		return asked, err
	}
	asked.state, err = asked.readWeights()
	return asked, err
}

// inputs are the files read besides the graph.
func (p *predictCommand) inputs(asked *request) []string {
	files := slices.Concat([]string{asked.weights, p.settings.config, p.vertices}, p.added.files())
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
			return asked, refusal.Errorf("--memory-limit %s: predict does not plan its memory; leave it "+
				"out", g.text)
		}
	}
	if err := cmp.Or(p.added.check(p.readsTables()), p.checkChanged()); err != nil {
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
			"give weights with --init", p.settings.config)
	case len(args) == 0:
		return asked, refusal.Errorf("predict: name a run's directory, or weights with --init and a graph")
	default:
		if asked, given, err = p.ofRun(args); err != nil {
			return asked, err
		}
	}
	used := p.settings.names(func(s setting.Setting) bool { return s.Group != setting.TrainingGroup })
	if asked.options, err = resolved(&given, used...); err != nil || !p.files.listed {
		return asked, err
	}
	if p.added.there() {
		if err := asked.admitsAddition(); err != nil {
			return asked, err
		}
	}
	asked.graph = p.added.to(asked.graph)
	return asked, asked.options.CheckSome()
}

// ofRun is what a run asks for, with the settings that are given in place of its own.
func (p *predictCommand) ofRun(args []string) (asked request, o setting.Options, err error) {
	if asked, o, _, err = requestOf(args); err != nil {
		return asked, o, err
	}
	if err := p.settings.override(&o); err != nil {
		return asked, o, err
	}
	return asked, o, asked.hasGraph("predict", args)
}
