package cli

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"weft/cmd/weft/internal/ui"
	"weft/gnn"
	"weft/internal/refusal"
	"weft/internal/regular"
	"weft/train"
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

// SettingFlags are the settings of a run as flags, beside a configuration file that they override.
type SettingFlags struct {
	Config string
	device setting.Device // what --device auto has become; "" before
	why    string
	Base   *setting.Options // the options of the run that continues; nil: the defaults
	Given  []givenSetting
}

// givenSetting is a setting on the command line. It is kept until the file that it overrides has been read.
type givenSetting struct {
	Setting setting.Setting
	Text    string
}

// Add registers --config and one flag for each setting.
func (s *SettingFlags) Add(flags *pflag.FlagSet) {
	s.AddThose(flags, func(setting.Setting) bool { return true })
	addHelpAll(flags)
	flags.StringVar(&s.Config, "config", "", "YAML `file` of settings under the names of these flags, "+
		"which override it, or the name of a configuration of publications, as in cora-gcn")
}

// AddThose registers one flag for each wanted setting.
func (s *SettingFlags) AddThose(flags *pflag.FlagSet, wanted func(setting.Setting) bool) {
	for _, option := range setting.All() {
		if !wanted(option) {
			continue
		}
		v := &SettingValue{setting: option, supplied: &s.Given, value: setting.Defaults()}
		meaning := option.Meaning
		if len(option.Choices) > 0 {
			meaning += ": " + strings.Join(option.Choices, ", ")
		}
		meaning += onlyFor(option)
		flag := flags.VarPF(v, option.Name, "", meaning)
		flag.Annotations = map[string][]string{
			FlagGroup: {headings[option.Group]}, FlagChoices: option.Choices,
		}
		if option.Kind() == "bool" {
			flag.NoOptDefVal = "true"
		}
	}
}

// onlyFor names the task or the models that use a setting; "": all do.
func onlyFor(s setting.Setting) string {
	uses := s.Models()
	switch {
	case s.Tasks() != nil:
		return "; for --task " + strings.Join(s.Tasks(), ", ")
	case len(uses) == len(gnn.Names()):
		return ""
	case len(uses) == len(gnn.Names())-1:
		except := slices.IndexFunc(gnn.Names(),
			func(name string) bool { return !slices.Contains(uses, name) })
		return "; for all models but " + gnn.Names()[except] +
			ui.When(s.Behind() != nil,
				"; with --task "+strings.Join(s.Behind(), " or ")+" for all models")
	}
	return "; for " + strings.Join(uses, ", ")
}

// Resolve returns the defaults, changed by the configuration file, changed by the flags. It refuses what is
// wrong with them. The files that they name need not exist, as a run that continues does without them.
func (s *SettingFlags) Resolve() (*setting.Resolved, error) {
	o, err := s.Merge()
	if err != nil {
		return nil, err
	}
	return o.Resolve(s.GivenNames()...)
}

// GivenNames are the names of all given settings.
func (s *SettingFlags) GivenNames() []string {
	return s.Names(func(setting.Setting) bool { return true })
}

// Names are the names of the given settings that are wanted.
func (s *SettingFlags) Names(wanted func(setting.Setting) bool) (names []string) {
	for _, g := range s.Given {
		if wanted(g.Setting) {
			names = append(names, g.Setting.Name)
		}
	}
	return names
}

// OnAnyMesh are these options on a mesh that stands for another one, which is not known yet. Settings of the
// mesh's other axes have their defaults. All must have permitted values.
func (s *SettingFlags) OnAnyMesh(parallel string) (*setting.Resolved, error) {
	o, err := s.Merge()
	if err != nil {
		return nil, err
	}
	if err := o.CheckValues(); err != nil {
		return nil, err
	}
	o.Parallel = parallel
	o.ResetOtherAxes(func(string) bool { return false })
	return o.Resolve(s.Names(func(option setting.Setting) bool { return !option.OfSomeMeshes() })...)
}

// Merge are these options, before they are checked for sense.
func (s *SettingFlags) Merge() (setting.Options, error) {
	o := setting.Defaults()
	if s.Base != nil {
		o = *s.Base
	}
	if s.Config != "" {
		if err := setting.ReadConfig(s.Config, &o); err != nil {
			return o, err
		}
	}
	return o, s.Override(&o)
}

// Override sets what the command line gave.
func (s *SettingFlags) Override(o *setting.Options) error {
	for _, g := range s.Given {
		if err := g.Setting.Set(o, g.Text); err != nil {
			return refusal.Errorf("--%s %s: %w", g.Setting.Name, g.Text, err)
		}
	}
	if err := o.ReadFiles(); err != nil {
		return err
	}
	if o.Device == setting.AutoDevice {
		if s.device == "" {
			s.device, s.why = train.ChooseDevice(*o)
		}
		o.Device = s.device
	}
	// A mesh on the command line overrides what the file says about other axes.
	isSet := func(name string) bool { return slices.Contains(s.GivenNames(), name) }
	if isSet("parallel") {
		o.ResetOtherAxes(isSet)
	}
	return nil
}

// SayDevice says once what --device auto has become.
func (s *SettingFlags) SayDevice(out io.Writer) {
	if s.why != "" {
		fmt.Fprintf(out, "--device %s: %s (%s)\n", setting.AutoDevice, s.device, ui.Printable(s.why))
	}
	s.why = ""
}

// Resolved returns options that make sense on this machine now: the files that they name must exist. supplied
// names the settings that the caller set.
func Resolved(o *setting.Options, supplied ...string) (*setting.Resolved, error) {
	r, err := o.Resolve(supplied...)
	if err != nil {
		return nil, err
	}
	return r, CheckInit(o.Init)
}

// CheckInit refuses initial weights that do not exist. An empty path stands for none.
func CheckInit(path string) error {
	if path == "" {
		return nil
	}
	f, _, err := regular.Open(path)
	if err != nil {
		return refusal.Errorf("--init %w; it names a safetensors file with weights, or a run that has "+
			"ended", err)
	}
	return f.Close()
}

// SettingValue is the pflag.Value of one setting.
type SettingValue struct {
	setting  setting.Setting
	supplied *[]givenSetting
	value    setting.Options // only the one field counts
}

// String implements pflag.Value.
func (v *SettingValue) String() string { return v.setting.Text(&v.value) }

// Type implements pflag.Value.
func (v *SettingValue) Type() string {
	if kind := v.setting.Kind(); kind != "string" {
		return kind
	}
	return "name"
}

// Set implements pflag.Value.
func (v *SettingValue) Set(text string) error {
	if err := v.setting.Set(&v.value, text); err != nil {
		return err
	}
	*v.supplied = append(*v.supplied, givenSetting{v.setting, text})
	return nil
}

// WarnUnused says which given settings have no effect.
func WarnUnused(out io.Writer, o *setting.Resolved) {
	for _, name := range o.Unused() {
		fmt.Fprintf(out, "weft: warning: --%s has no effect: the model %s does not use it\n", name, o.Model)
	}
}

// FlagGroup is the annotation that puts a flag under a heading of its own in the help text.
const FlagGroup = "group"

// helpAll is the flag --help-all, which is --help with all flags.
type helpAll struct{ changed bool }

// HelpAllFlag is the name of the flag.
const HelpAllFlag = "help-all"

// addHelpAll adds the flag.
func addHelpAll(flags *pflag.FlagSet) {
	flag := flags.VarPF(&helpAll{}, HelpAllFlag, "", "print this help text with all flags")
	flag.NoOptDefVal, flag.Hidden = "true", true // the help text ends with it
}

// Set implements pflag.Value. It only asks for help.
func (h *helpAll) Set(string) error {
	h.changed = true
	return pflag.ErrHelp
}

func (h *helpAll) String() string { return strconv.FormatBool(h.changed) }

// Type implements pflag.Value.
func (*helpAll) Type() string { return "bool" }
