package train

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"weft/internal/refusal"
	"weft/internal/suggest"
)

// maxConfig is more than any configuration needs: a file larger than this is something else.
const maxConfig = 1 << 20

// ReadConfig reads a configuration file, a YAML mapping from names of settings to values, over the options in o. Settings that
// the file does not name keep their value. An unknown key, a key that stands twice and a value that is not accepted are refused
// with their line.
func ReadConfig(path string, o *Options) error {
	info, err := os.Stat(path)
	if err != nil {
		return refusal.Errorf("--config %s: %s", path, reason(err))
	}
	if !info.Mode().IsRegular() || info.Size() > maxConfig {
		return refusal.Errorf("--config %s: not a configuration file: a YAML file of up to %d bytes was expected", path, maxConfig)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return refusal.Errorf("--config %s: %s", path, reason(err))
	}
	if err := parseConfig(bytes.TrimPrefix(data, []byte(byteOrderMark)), o); err != nil {
		return refusal.Errorf("--config %s: %w", path, err)
	}
	return nil
}

// byteOrderMark is what some editors begin a file with.
const byteOrderMark = "\ufeff"

func parseConfig(data []byte, o *Options) error {
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return yamlError(err)
	}
	if len(file.Docs) > 1 {
		return errors.New("holds several YAML documents; one was expected")
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return nil
	}
	seen := map[string]bool{}
	var pairs []*ast.MappingValueNode
	switch body := file.Docs[0].Body.(type) {
	case *ast.MappingNode:
		pairs = body.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{body}
	case *ast.CommentGroupNode, *ast.NullNode:
	default:
		return errors.New("line 1: a mapping was expected, as in \"hidden: 64\"")
	}
	for _, pair := range pairs {
		token := pair.Key.GetToken()
		key := token.Value
		if err := setFromYAML(o, key, pair.Value, seen[key]); err != nil {
			return fmt.Errorf("line %d: %w", token.Position.Line, err)
		}
		seen[key] = true
	}
	return nil
}

func setFromYAML(o *Options, key string, value ast.Node, again bool) error {
	switch value.(type) {
	case *ast.AnchorNode, *ast.AliasNode:
		return fmt.Errorf("%s: YAML's anchors and aliases (& and *) are not read; write the value itself", key)
	}
	setting, known := settingNamed(key)
	if !known {
		return fmt.Errorf("unknown key %q; %s", key, didYouMean(key))
	}
	if again {
		return fmt.Errorf("%s stands twice", key)
	}
	scalar, ok := value.(ast.ScalarNode)
	if !ok || scalar.GetValue() == nil {
		return fmt.Errorf("%s: a single value was expected", key)
	}
	if err := setting.Set(o, fmt.Sprint(scalar.GetValue())); err != nil {
		return fmt.Errorf("%s %q: %w", key, fmt.Sprint(scalar.GetValue()), err)
	}
	if reason := setting.reject(o); reason != "" {
		return fmt.Errorf("%s %s: %s", key, setting.Text(o), reason)
	}
	return nil
}

// yamlError turns the parser's error, which draws the file's lines, into one line.
func yamlError(err error) error {
	var located yaml.Error
	if errors.As(err, &located) && located.GetToken() != nil {
		return fmt.Errorf("line %d: %s", located.GetToken().Position.Line, located.GetMessage())
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return errors.New(line)
}

// reason is the operating system's word on an error, without the path that the message names already.
func reason(err error) error {
	if path := (*os.PathError)(nil); errors.As(err, &path) {
		return path.Err
	}
	return err
}

// didYouMean proposes the key that was meant by an unknown one, or says which there are.
func didYouMean(unknown string) string {
	names := make([]string, len(settings))
	for i, s := range settings {
		names[i] = s.Name
	}
	if near := suggest.Nearest(unknown, names); near != "" {
		return "did you mean " + near + "?"
	}
	return "the keys are the flags of weft train without their dashes"
}

// YAML writes every setting that applies to the model, in the form that ReadConfig reads. It leaves out where the first weights
// came from and an empty mesh: the file says how to repeat the run anywhere.
func (o *Options) YAML() ([]byte, error) {
	mesh, err := o.Mesh()
	if err != nil {
		return nil, err
	}
	var file yaml.MapSlice
	for _, s := range settings {
		if s.Name == "init" || !s.Applies(o.Model) || !s.appliesTo(mesh) || (s.Name == "parallel" && o.Parallel == "") {
			continue
		}
		value := s.Value(o)
		switch v := value.(type) {
		case Bytes:
			value = v.String()
		case time.Duration:
			value = v.String()
		}
		file = append(file, yaml.MapItem{Key: s.Name, Value: value})
	}
	return yaml.Marshal(file)
}
