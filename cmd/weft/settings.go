package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"weft/gnn"
	"weft/internal/refusal"
	"weft/internal/regular"
	"weft/train"
)

// headings are the titles of the groups of settings in help texts.
var headings = map[train.Group]string{
	train.ModelGroup:    "Model",
	train.TrainingGroup: "Training",
	train.MachineGroup:  "Machine",

	train.GraphAxisGroup:  "Graph axis (--parallel graph=N)",
	train.TensorAxisGroup: "Tensor axis (--parallel tensor=N)",

	train.PipelineAxisGroup: "Pipeline axis (--parallel pipeline=N)",
}

// settingFlags are the settings of a run as flags, beside a configuration file that they override.
type settingFlags struct {
	config string
	given  []givenSetting
}

// givenSetting is a setting on the command line, kept until the file it overrides has been read.
type givenSetting struct {
	setting train.Setting
	text    string
}

// add registers --config and one flag for each setting.
func (s *settingFlags) add(flags *pflag.FlagSet) {
	for _, setting := range train.Settings() {
		v := &settingValue{setting: setting, given: &s.given, value: train.Defaults()}
		meaning := setting.Meaning
		if len(setting.Choices) > 0 {
			meaning += ": " + strings.Join(setting.Choices, ", ")
		}
		meaning += onlyFor(setting)
		flag := flags.VarPF(v, setting.Name, "", meaning)
		flag.Annotations = map[string][]string{flagGroup: {headings[setting.Group]}, flagChoices: setting.Choices}
		if setting.Kind() == "bool" {
			flag.NoOptDefVal = "true"
		}
	}
	flags.StringVar(&s.config, "config", "", "YAML `file` of settings under the names of these flags, which override it")
}

// onlyFor names the task or the models that use a setting, "" where all do.
func onlyFor(s train.Setting) string {
	uses := s.Models()
	switch {
	case s.Task() != "":
		return "; for --task " + s.Task()
	case len(uses) == len(gnn.Names()):
		return ""
	}
	return "; for " + strings.Join(uses, ", ")
}

// options are the defaults, changed by the configuration file, changed by the flags. What is wrong with them
// is a refusal.
func (s *settingFlags) options() (train.Options, error) {
	o, err := s.merge()
	if err != nil {
		return o, err
	}
	for _, g := range s.given {
		if err := g.setting.RefuseAxis(&o); err != nil {
			return o, err
		}
	}
	return o, check(&o)
}

// merge is options before it is known whether they make sense.
func (s *settingFlags) merge() (train.Options, error) {
	o := train.Defaults()
	if s.config != "" {
		if err := train.ReadConfig(s.config, &o); err != nil {
			return o, err
		}
	}
	return o, s.override(&o)
}

// override sets what the command line gave.
func (s *settingFlags) override(o *train.Options) error {
	for _, g := range s.given {
		if err := g.setting.Set(o, g.text); err != nil {
			return refusal.Errorf("--%s %s: %w", g.setting.Name, g.text, err)
		}
	}
	// A mesh on the command line does away with what the file says of other axes.
	given := func(name string) bool {
		return slices.ContainsFunc(s.given, func(g givenSetting) bool { return g.setting.Name == name })
	}
	if given("parallel") {
		o.ResetOtherAxes(given)
	}
	return nil
}

// check refuses options that make no sense, here and now: the files that they name must be there.
func check(o *train.Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	if o.Init != "" {
		f, _, err := regular.Open(o.Init)
		if err != nil {
			return refusal.Errorf("--init %w; it names a safetensors file with weights", err)
		}
		return f.Close()
	}
	return nil
}

// settingValue is the pflag.Value of one setting.
type settingValue struct {
	setting train.Setting
	given   *[]givenSetting
	value   train.Options // only the one field counts
}

func (v *settingValue) String() string { return v.setting.Text(&v.value) }

func (v *settingValue) Type() string {
	if kind := v.setting.Kind(); kind != "string" {
		return kind
	}
	return "name"
}

func (v *settingValue) Set(text string) error {
	if err := v.setting.Set(&v.value, text); err != nil {
		return err
	}
	*v.given = append(*v.given, givenSetting{v.setting, text})
	return nil
}

// warnUnused says which settings were given in vain.
func warnUnused(out io.Writer, o *train.Options) {
	for _, name := range o.Unused() {
		fmt.Fprintf(out, "weft: warning: --%s has no effect: the model %s does not use it\n", name, o.Model)
	}
}
