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
	"weft/train/setting"
)

// headings are the titles of the groups of settings in help texts.
var headings = map[setting.Group]string{
	setting.ModelGroup:    "Model",
	setting.TrainingGroup: "Training",
	setting.MachineGroup:  "Machine",

	setting.GraphAxisGroup:  "Graph axis (--parallel graph=N)",
	setting.TensorAxisGroup: "Tensor axis (--parallel tensor=N)",

	setting.PipelineAxisGroup: "Pipeline axis (--parallel pipeline=N)",
}

// settingFlags are the settings of a run as flags, beside a configuration file that they override.
type settingFlags struct {
	config string
	base   *setting.Options // of the run that continues; nil: the defaults
	given  []givenSetting
}

// givenSetting is a setting on the command line, kept until the file it overrides has been read.
type givenSetting struct {
	setting setting.Setting
	text    string
}

// add registers --config and one flag for each setting.
func (s *settingFlags) add(flags *pflag.FlagSet) {
	s.addThose(flags, func(setting.Setting) bool { return true })
	addHelpAll(flags)
	flags.StringVar(&s.config, "config", "", "YAML `file` of settings under the names of these flags, "+
		"which override it, or the name of a configuration of publications, as in cora-gcn")
}

// addThose registers one flag for each setting that is wanted.
func (s *settingFlags) addThose(flags *pflag.FlagSet, wanted func(setting.Setting) bool) {
	for _, one := range setting.All() {
		if !wanted(one) {
			continue
		}
		v := &settingValue{setting: one, given: &s.given, value: setting.Defaults()}
		meaning := one.Meaning
		if len(one.Choices) > 0 {
			meaning += ": " + strings.Join(one.Choices, ", ")
		}
		meaning += onlyFor(one)
		flag := flags.VarPF(v, one.Name, "", meaning)
		flag.Annotations = map[string][]string{flagGroup: {headings[one.Group]}, flagChoices: one.Choices}
		if one.Kind() == "bool" {
			flag.NoOptDefVal = "true"
		}
	}
}

// onlyFor names the task or the models that use a setting, "" where all do.
func onlyFor(s setting.Setting) string {
	uses := s.Models()
	switch {
	case s.Task() != "":
		return "; for --task " + s.Task()
	case len(uses) == len(gnn.Names()):
		return ""
	case len(uses) == len(gnn.Names())-1:
		except := slices.IndexFunc(gnn.Names(),
			func(name string) bool { return !slices.Contains(uses, name) })
		return "; for all models but " + gnn.Names()[except]
	}
	return "; for " + strings.Join(uses, ", ")
}

// resolve are the defaults, changed by the configuration file, changed by the flags. What is wrong with them
// is a refusal. The files that they name may not be there: a run that continues does without.
func (s *settingFlags) resolve() (*setting.Resolved, error) {
	o, err := s.merge()
	if err != nil {
		return nil, err
	}
	return o.Resolve(s.givenNames()...)
}

// givenNames are those of all given settings.
func (s *settingFlags) givenNames() []string {
	return s.names(func(setting.Setting) bool { return true })
}

// names are the given settings that are wanted.
func (s *settingFlags) names(wanted func(setting.Setting) bool) (names []string) {
	for _, g := range s.given {
		if wanted(g.setting) {
			names = append(names, g.setting.Name)
		}
	}
	return names
}

// onAnyMesh are these options on a mesh that stands for another one, which is not known yet. Settings of its
// other axes have their defaults; all must have values that they may have.
func (s *settingFlags) onAnyMesh(parallel string) (*setting.Resolved, error) {
	o, err := s.merge()
	if err != nil {
		return nil, err
	}
	if err := o.CheckValues(); err != nil {
		return nil, err
	}
	o.Parallel = parallel
	o.ResetOtherAxes(func(string) bool { return false })
	return o.Resolve(s.names(func(one setting.Setting) bool { return !one.OfSomeMeshes() })...)
}

// merge are these options before it is known whether they make sense.
func (s *settingFlags) merge() (setting.Options, error) {
	o := setting.Defaults()
	if s.base != nil {
		o = *s.base
	}
	if s.config != "" {
		if err := setting.ReadConfig(s.config, &o); err != nil {
			return o, err
		}
	}
	return o, s.override(&o)
}

// override sets what the command line gave.
func (s *settingFlags) override(o *setting.Options) error {
	for _, g := range s.given {
		if err := g.setting.Set(o, g.text); err != nil {
			return refusal.Errorf("--%s %s: %w", g.setting.Name, g.text, err)
		}
	}
	// A mesh on the command line does away with what the file says of other axes.
	given := func(name string) bool { return slices.Contains(s.givenNames(), name) }
	if given("parallel") {
		o.ResetOtherAxes(given)
	}
	return nil
}

// resolved are options that make sense here and now: the files that they name must be there.
func resolved(o *setting.Options, given ...string) (*setting.Resolved, error) {
	r, err := o.Resolve(given...)
	if err != nil {
		return nil, err
	}
	return r, checkInit(o.Init)
}

// checkInit refuses weights to start from that are not there. An empty path stands for none.
func checkInit(path string) error {
	if path == "" {
		return nil
	}
	f, _, err := regular.Open(path)
	if err != nil {
		return refusal.Errorf("--init %w; it names a safetensors file with weights", err)
	}
	return f.Close()
}

// settingValue is the pflag.Value of one setting.
type settingValue struct {
	setting setting.Setting
	given   *[]givenSetting
	value   setting.Options // only the one field counts
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
func warnUnused(out io.Writer, o *setting.Resolved) {
	for _, name := range o.Unused() {
		fmt.Fprintf(out, "weft: warning: --%s has no effect: the model %s does not use it\n", name, o.Model)
	}
}
