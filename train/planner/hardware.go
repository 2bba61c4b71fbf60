package planner

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/token"

	"weft/configs"
	"weft/internal/document"
	"weft/internal/refusal"
	"weft/parallel/mesh"
	"weft/train/setting"
)

// Hardware is a machine with cards, or several of the same kind, as a file of configs/machines describes it.
// It need not be here.
type Hardware struct {
	Nodes      int     `json:"nodes"`
	Cards      int     `json:"cards"`             // of a node
	HostMemory float64 `json:"host_memory_bytes"` // of a node
	// CardLink is what a card sends to other cards of its node while it receives as much, if messages lie in
	// the memory of cards.
	CardLink float64  `json:"card_link_bytes_per_second"`
	NodeLink float64  `json:"node_link_bytes_per_second"` // the same between nodes; 0: there is one node
	Card     CardSpec `json:"card"`
}

// ReadHardware returns the machine of that name in configs/machines, or of a file whose name ends in .yaml.
// It refuses a file that lacks a key, has an unknown key, or has a value that no machine has.
func ReadHardware(name string) (*Hardware, error) {
	const most = 64 << 10
	text, found := configs.Machine(name)
	if !found {
		if ext := filepath.Ext(name); ext != ".yaml" && ext != ".yml" {
			return nil, refusal.Errorf("%s: must be %s, or a file whose name ends in .yaml", name,
				strings.Join(configs.Machines(), ", "))
		}
		var err error
		if text, err = document.Read(name, most); errors.Is(err, fs.ErrNotExist) {
			return nil, refusal.Errorf("%s: there is no such file", name)
		} else if err != nil {
			return nil, err
		}
	}
	h, err := parseHardware(text)
	if err != nil {
		return nil, refusal.Errorf("%s: %w", name, err)
	}
	return h, nil
}

// parseHardware reads the YAML of a machine.
func parseHardware(text []byte) (*Hardware, error) {
	parsed, err := setting.ParseYAML(text)
	if err != nil {
		return nil, setting.YAMLError(err)
	}
	for _, t := range lexer.Tokenize(string(text)) {
		if t.Type == token.AliasType { // a few lines with aliases stand for any number of values
			return nil, fmt.Errorf("line %d: an alias; write the value", t.Position.Line)
		}
	}
	const keys = "docs/gpu.md has a machine's keys"
	if n := len(parsed.Docs); n > 1 {
		return nil, setting.ErrSeveralDocuments
	} else if n == 0 || parsed.Docs[0].Body == nil {
		return nil, fmt.Errorf("is empty; %s", keys)
	}
	var file any
	if err := yaml.NodeToValue(parsed.Docs[0].Body, &file); err != nil {
		return nil, setting.YAMLError(err)
	}
	readNumbers(file)
	asJSON, err := json.Marshal(file)
	if err != nil {
		return nil, err
	}
	h := &Hardware{}
	decoder := json.NewDecoder(bytes.NewReader(asJSON))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(h); err != nil {
		var mismatch *json.UnmarshalTypeError
		if errors.As(err, &mismatch) && mismatch.Field != "" {
			want := map[reflect.Kind]string{
				reflect.Int: "a whole number", reflect.String: "text", reflect.Struct: "its keys",
			}
			return nil, fmt.Errorf("%s: %s; give %s", mismatch.Field, mismatch.Value,
				cmp.Or(want[mismatch.Type.Kind()], "a number"))
		}
		return nil, fmt.Errorf("%s; %s", strings.TrimPrefix(err.Error(), "json: "), keys)
	}
	return h, h.check()
}

// readNumbers turns values that the parser takes for text into numbers, as 80e9, but for names. NaN and the
// infinities become text.
func readNumbers(file any) {
	fields, _ := file.(map[string]any)
	for key, value := range fields {
		readNumbers(value)
		text, is := value.(string)
		if number, err := strconv.ParseFloat(text, 64); is && err == nil && key != "name" {
			fields[key] = number
		}
		if number, is := fields[key].(float64); is && (math.IsNaN(number) || math.IsInf(number, 0)) {
			fields[key] = fmt.Sprint(number)
		}
	}
}

// check refuses what no machine has.
func (h *Hardware) check() error {
	const slowest, fastest = 1e6, 1e18
	for _, field := range []struct {
		key                string
		value, least, most float64
	}{
		{"nodes", float64(h.Nodes), 1, mesh.MaxWorkers},
		{"cards", float64(h.Cards), 1, math.Floor(mesh.MaxWorkers / max(1, float64(h.Nodes)))},
		{"host_memory_bytes", h.HostMemory, 1, 1e18},
		{"card_link_bytes_per_second", h.CardLink, slowest, fastest},
		{"node_link_bytes_per_second", h.NodeLink, slowest, fastest},
	} {
		if field.key == "node_link_bytes_per_second" && h.Nodes == 1 {
			if field.value != 0 {
				return fmt.Errorf("%s: %g, and there is one node; leave it out", field.key, field.value)
			}
			continue
		}
		if !(field.value >= field.least && field.value <= field.most) {
			return fmt.Errorf("%s: %g; give %g to %g", field.key, field.value, field.least, field.most)
		}
	}
	if err := h.Card.check(); err != nil {
		return fmt.Errorf("card.%w", err)
	}
	return nil
}

// Workers is the number of workers: each card has one.
func (h *Hardware) Workers() int { return h.Nodes * h.Cards }

// perMessage is how long a message between cards takes in addition to its bytes, in seconds. Makers do not
// say it.
const perMessage = 10e-6

// Machine describes what so many workers run on. Messages between the cards of a node pass through the host's
// memory, unless they lie in the memory of cards.
func (h *Hardware) Machine(workers int, deviceMessages bool) (m Machine) {
	m.Card, m.Cores, m.HostMemory = &h.Card, 1, h.HostMemory
	m.Sharers = min(workers, h.Cards)
	if deviceMessages {
		m.Links = Links{Sends: h.CardLink, Receives: h.CardLink, Latency: perMessage}
	}
	if workers > h.Cards {
		m.Far = Links{Sends: h.NodeLink, Receives: h.NodeLink, Latency: perMessage}
	}
	return m
}
