package setting

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"weft/gnn"
	"weft/internal/number"
	"weft/internal/refusal"
	"weft/internal/suggest"
	"weft/parallel/mesh"
	"weft/partition"
	"weft/train/task"
)

// Group says what a setting is about; help texts list the settings by group.
type Group int

// The groups, in the order in which help texts list them.
const (
	ModelGroup        Group = iota // what is computed: predictions need it again
	TrainingGroup                  // how the weights are found
	MachineGroup                   // how the work is done, without changing the result
	GraphAxisGroup                 // how it is done by workers that divide the graph
	TensorAxisGroup                // how workers that divide the graph do it
	PipelineAxisGroup              // how workers that divide the columns do it
)

// Setting describes one field of Options: its name is the flag, the key of a configuration file and the
// field's yaml tag. The table of settings is the only place that knows a setting's help text and the values
// it accepts.
type Setting struct {
	Name    string
	Group   Group
	Meaning string   // one line of help, without choices and default, with backquotes around the value's name
	Choices []string // the accepted words, nil: not a choice among words
	others  bool     // the field's type reads other words, too
	// completes reports whether a further word is accepted: a form with an argument.
	completes func(text string) bool
	forms     []string // how words of these forms are written

	byDefault string   // the text of the default; "": the first of Choices, or else the zero value
	tasks     []string // the tasks for which the setting is; nil: any
	// needs is another setting, and the values of it for which this one has an effect; zero: any.
	needs need
	some  bool // only some models use it, decoupled or not: gnn.ModelKind lists it
	// behind says when what stands behind the model uses the setting, whatever the model; zero: never.
	behind       behind
	axis         string // the axis of the mesh for which the setting is; "": any mesh
	excludedAxis string // an axis of the mesh with which the setting has no effect; "": none
	shared       bool   // the setting is for a mesh of more than one worker
	// keeps says that the setting may name a file, which a run keeps. A configuration names the file relative
	// to its own folder. nil: it names none.
	keeps *kept
	// changes says that a run that continues from a checkpoint may have another value.
	changes bool
	// isFile reports whether a value is a file or a store that a run does not keep, so that a run that
	// continues may find it elsewhere; nil: no value is.
	isFile func(string) bool
	limits bounds // the least and the largest number
	// check refuses the value in combination with other settings or the mesh, if the setting applies; nil: it
	// refuses none.
	check func(s Setting, r *Resolved) error
	// checkGraph refuses a graph, as far as its counts tell, if the setting applies; nil: it refuses none.
	checkGraph func(s Setting, r *Resolved, whole *partition.Whole, outputs int) error
	// ownPass reports whether an evaluation needs a pass of its own, because the forward pass of the next
	// epoch has other inputs, messages or a graph of its own; nil: it does not, unless blocks of the model
	// name the setting (gnn.BlockSpec.OwnPass).
	ownPass func(*Resolved) bool
	// inexact reports whether training on the mesh gives other results than on one worker, beyond rounding;
	// nil: it gives the same.
	inexact func(*Resolved) bool
	field   []int // index of the field in Options
}

// need is a condition: another setting must have one of these values.
type need struct {
	setting string
	values  []string
}

// behind is a condition: one of these tasks, and what the texts of other settings say.
type behind struct {
	tasks []string
	when  func(text func(setting string) string) bool
}

// uses reports whether the condition is met.
func (b behind) uses(text func(setting string) string) bool {
	return slices.Contains(b.tasks, text("task")) && b.when(text)
}

// missing is the flag, with one of the values, that o lacks; "": o meets the need.
func (n need) missing(o *Options) string {
	if s, known := settingNamed(n.setting); !known || slices.Contains(n.values, s.Text(o)) {
		return ""
	}
	return "--" + n.setting + " " + strings.Join(n.values, " or ")
}

var (
	settings []Setting
	defaults Options
)

// Defaults are the default options.
func Defaults() Options { return defaults }

func init() {
	settings = withFields([][]Setting{
		ModelGroup: modelSettings, TrainingGroup: trainingSettings, MachineGroup: machineSettings,
		GraphAxisGroup: graphAxisSettings, TensorAxisGroup: tensorAxisSettings,
		PipelineAxisGroup: pipelineAxisSettings,
	})
	for _, s := range settings {
		text := s.byDefault
		if _, word := s.pointer(&defaults).(*string); word && text == "" && s.Choices != nil {
			text = s.Choices[0]
		}
		if text == "" {
			continue
		}
		if err := s.Set(&defaults, text); err != nil {
			panic("the default of " + s.Name + " " + err.Error())
		}
	}
}

// All lists every setting, in the order of help texts and of run.yaml.
func All() []Setting { return slices.Clone(settings) }

// settingNamed finds a setting by its name.
func settingNamed(name string) (Setting, bool) {
	i := slices.IndexFunc(settings, func(s Setting) bool { return s.Name == name })
	if i < 0 {
		return Setting{}, false
	}
	return settings[i], true
}

func usesWeights(k gnn.ModelKind) bool  { return k.EdgeWeights }
func usesFeatures(k gnn.ModelKind) bool { return k.EdgeFeatures || k.Uses("use-edge-features") }

// WeightedModels lists the models that use the edges' weights.
func WeightedModels() string { return modelsWith(usesWeights) }

// modelsWith lists the models that use something of the edges.
func modelsWith(uses func(gnn.ModelKind) bool) string {
	return strings.Join(slices.DeleteFunc(gnn.Names(), func(name string) bool {
		kind, _ := gnn.KindOf(name)
		return !uses(kind)
	}), ", ")
}

// settingNames are the names of all settings.
func settingNames() (names []string) {
	for _, s := range settings {
		names = append(names, s.Name)
	}
	return names
}

// activations are the names of the activations, in the order of the kernels' own list.
func activations() []string {
	return slices.SortedFunc(maps.Keys(gnn.Activations), func(a, b string) int {
		return cmp.Compare(gnn.Activations[a], gnn.Activations[b])
	})
}

// withFields lists the settings of a table by group, each tied to the field of Options whose yaml tag is its
// name.
func withFields(table [][]Setting) (all []Setting) {
	fields := map[string][]int{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Options]()) {
		fields[f.Tag.Get("yaml")] = f.Index
	}
	for group, list := range table {
		for _, s := range list {
			s.Group = Group(group)
			s.field = fields[s.Name]
			if s.field == nil {
				panic("Options has no field for the setting " + s.Name)
			}
			all = append(all, s)
		}
	}
	return all
}

// Tasks are the tasks for which the setting is; nil: any.
func (s Setting) Tasks() []string { return s.tasks }

// ofLabels are the tasks that learn labels.
var ofLabels = []string{task.Vertex, task.Edge}

// ofTask reports whether the setting is for a task.
func (s Setting) ofTask(name string) bool { return s.tasks == nil || slices.Contains(s.tasks, name) }

// UsedBy reports whether the model of a run with these Texts uses a setting, decoupled or not. An unknown
// model uses all.
func UsedBy(run map[string]string, name string) bool {
	kind, known := gnn.KindOf(run["model"])
	s, _ := settingNamed(name)
	return !known && run["program"] == "" || kind.Uses(name) || name == "model" || !s.some ||
		known && s.behind.uses(func(name string) string { return run[name] })
}

// Models lists the models that use the setting, decoupled or not.
func (s Setting) Models() []string {
	return slices.DeleteFunc(gnn.Names(), func(model string) bool {
		kind, _ := gnn.KindOf(model)
		return s.some && !kind.Uses(s.Name)
	})
}

// Applies reports whether the setting changes anything for the model that o describes.
func (s Setting) Applies(o *Options) bool {
	behind := o.Program.Path == "" && s.behind.uses(func(name string) string {
		other, _ := settingNamed(name)
		return other.Text(o)
	})
	return s.ofTask(o.Task) && (!s.some || o.Uses(s.Name) || behind)
}

// Behind are the tasks with which the setting has a meaning behind every model: its width, or its decoder.
func (s Setting) Behind() []string { return s.behind.tasks }

// appliesTo reports whether the setting means anything on a mesh.
func (s Setting) appliesTo(m mesh.Mesh) bool {
	return (s.axis == "" || *along(&m,
		s.axis) > 1) && (s.excludedAxis == "" || *along(&m, s.excludedAxis) == 1) &&
		(!s.shared || m.Workers() > 1)
}

// turnsOff reports whether a value asks for nothing, as may stand on any mesh.
func turnsOff(text string) bool { return text == "0" || text == "none" || text == "false" }

// OfSomeMeshes reports whether the setting has no meaning on some meshes.
func (s Setting) OfSomeMeshes() bool { return s.axis != "" || s.shared }

// ResetOtherAxes resets the settings of axes that the mesh lacks to their defaults, unless keep reports true
// for the name.
func (o *Options) ResetOtherAxes(keep func(name string) bool) {
	mesh, _, err := o.mesh()
	if err != nil {
		return // Resolve reports the error
	}
	mesh.Partitions = max(mesh.Partitions, int(o.Partitions))
	for _, s := range settings {
		if !s.appliesTo(mesh) && !keep(s.Name) {
			reflect.ValueOf(o).Elem().FieldByIndex(s.field).
				Set(reflect.ValueOf(&defaults).Elem().FieldByIndex(s.field))
		}
	}
}

// refuse makes a refusal of the setting's value in o. message says why, in the form of refusal.Errorf.
func (s Setting) refuse(o *Options, message string, args ...any) error {
	return refusal.Errorf("--"+s.Name+" %s: "+message, append([]any{s.Text(o)}, args...)...)
}

// refuseOnMesh makes a refusal of the setting's value on the mesh.
func (s Setting) refuseOnMesh(r *Resolved, message string, args ...any) error {
	return refusal.Errorf("--"+s.Name+" %s on the mesh %s: "+message,
		append([]any{s.Text(&r.Options), Axes(r.Mesh)}, args...)...)
}

// refuseUnused says why the setting has no meaning on a mesh.
func (s Setting) refuseUnused(m mesh.Mesh, o *Options) error {
	also := s.needs.missing(o)
	if also != "" {
		also = " and " + also
	}
	switch {
	case s.axis == "":
		return s.refuse(o, "belongs to a mesh of more than one worker; give --parallel graph=N%s, or leave it "+
			"out", also)
	case *along(&m, s.axis) > 1:
		return s.refuse(o, "the %s axis of the mesh %s does without it; leave it out, or take "+
			"--parallel %s=%d%s", s.excludedAxis, Axes(m), s.axis, m.Workers(), also)
	}
	return s.refuse(o, "belongs to the %s axis of a mesh; give --parallel %s=N with more than one worker%s, "+
		"or leave it out", s.axis, s.axis, also)
}

// Kind names the type of the setting's text: "int", "float", "bool", "size", "duration", "interval" or
// "string".
func (s Setting) Kind() string {
	switch s.pointer(new(Options)).(type) {
	case *int, *uint64:
		return "int"
	case *float64:
		return "float"
	case *bool:
		return "bool"
	case *Bytes:
		return "size"
	case *time.Duration:
		return "duration"
	case *Interval:
		return "interval"
	default:
		return "string"
	}
}

func (s Setting) pointer(o *Options) any {
	return reflect.ValueOf(o).Elem().FieldByIndex(s.field).Addr().Interface()
}

// Value is the setting's value in o: a number, a bool, a string, or a type that reads its text itself.
func (s Setting) Value(o *Options) any {
	return reflect.ValueOf(o).Elem().FieldByIndex(s.field).Interface()
}

// Text is the setting's value in o, as Set reads it.
func (s Setting) Text(o *Options) string { return fmt.Sprint(s.Value(o)) }

// differs reports whether the setting's value in o is not the default.
func (s Setting) differs(o *Options) bool { return s.Text(o) != s.Text(&defaults) }

// Set reads a value as a flag or a configuration file gives it. Options.Resolve checks whether the value
// makes sense.
func (s Setting) Set(o *Options, text string) (err error) {
	if _, word := s.pointer(o).(*bool); !word && s.limits.low == 0 && (text == "off" || text == "none") &&
		s.Choices == nil && s.Kind() != "string" {
		text = "0"
	}
	// Names may be written in any case, with or without hyphens.
	i := slices.IndexFunc(s.Choices, func(name string) bool {
		return strings.EqualFold(plain.Replace(name), plain.Replace(text))
	})
	switch p := s.pointer(o).(type) {
	case *string:
		*p = text
		if i >= 0 {
			*p = s.Choices[i]
		}
	case encoding.TextUnmarshaler:
		if s.Choices != nil && i < 0 && !s.others {
			return errors.New(s.unknown(text))
		}
		err = p.UnmarshalText([]byte(text))
	case *time.Duration:
		if *p, err = ParseTime(text); err == nil && *p == 0 && s.Name != "max-time" {
			err = errTime
		}
	case *int:
		if *p, err = Integer(text); errors.Is(err, ErrCount) || strings.Contains(text, ",") {
			err = errors.New(ErrCount.Error() + s.several(text))
		}
	case *uint64:
		if *p, err = strconv.ParseUint(text, 10, 64); err != nil {
			err = errors.New("must be a whole number, 0 or more")
		}
	case *float64:
		if *p, err = number.Parse(text, 64); err != nil {
			err = errors.New("must be a number" + s.several(text))
		}
	case *bool:
		*p, err = parseBool(text)
	}
	return err
}

// plain removes the characters that may stand between the words of a name.
var plain = strings.NewReplacer("-", "", "_", "")

// several says, for a list of values given to a setting of one value, what does the same.
func (s Setting) several(text string) string {
	switch {
	case !strings.ContainsAny(text, ", "):
		return ""
	case s.Name == "hidden":
		return ": all hidden layers have one width, and --layers says how many layers there are"
	}
	return "; weft sweep trains with several values"
}

func parseBool(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "true", "on", "yes":
		return true, nil
	case "false", "off", "no":
		return false, nil
	}
	return false, errors.New("must be true or false")
}

// reject says why o's value is not accepted; "": it is accepted.
func (s Setting) reject(o *Options) string {
	switch v := s.Value(o).(type) {
	case string:
		if s.Choices == nil || slices.Contains(s.Choices, v) || s.keeps != nil ||
			s.completes != nil && s.completes(v) {
			return ""
		}
		return s.unknown(v)
	case int:
		return s.limits.reject(float64(v))
	case Every:
		return s.limits.reject(float64(v))
	case float64:
		return s.limits.reject(v)
	}
	return ""
}

// unknown says that a word is not among the choices.
func (s Setting) unknown(word string) string {
	return "unknown " + s.Name + "; " + suggest.OneOf(word, slices.Concat(s.Choices, s.forms))
}

// bounds are the accepted values of a number. Infinities and NaN are never accepted.
type bounds struct {
	low, high         float64
	openLow, openHigh bool // the bound itself is not accepted
}

func between(low, high float64) bounds { return bounds{low: low, high: high} }
func atLeast(low float64) bounds       { return bounds{low: low, high: math.MaxFloat64} }
func above(low float64) bounds         { return bounds{low: low, high: math.MaxFloat64, openLow: true} }

// fraction bounds a probability of dropping: 1 would drop everything.
var fraction = bounds{low: 0, high: 1, openHigh: true}

func (b bounds) reject(x float64) string {
	if x >= b.low && x <= b.high && !(b.openLow && x == b.low) && !(b.openHigh && x == b.high) {
		return ""
	}
	low, high := "at least", "at most"
	if b.openLow {
		low = "above"
	}
	if b.openHigh {
		high = "below"
	}
	kind := ""
	if math.IsInf(x, 0) || math.IsNaN(x) {
		kind = "a finite number "
	}
	reason := fmt.Sprintf("must be %s%s %.10g", kind, low, b.low)
	if b.high != math.MaxFloat64 {
		reason += fmt.Sprintf(" and %s %.10g", high, b.high)
	}
	return reason
}
