package setting

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"weft/configs"
	"weft/internal/document"
	"weft/internal/refusal"
	"weft/internal/suggest"
)

// maxConfig is more bytes than any configuration needs: a file larger than this is something else.
const maxConfig = 16 << 10

// ReadConfig reads a configuration file, a YAML mapping from names of settings to values, over the options in
// o. Settings that the file does not name keep their value. It refuses an unknown key, a key that stands
// twice and a value that is not accepted, and names the line. If there is no such file, a word without a
// slash and an ending names one of configs.Names.
func ReadConfig(path string, o *Options) error {
	err := readNamed(path, o)
	if err != nil {
		return refusal.Errorf("--config %w", err)
	}
	return nil
}

// readNamed is ReadConfig without the setting in its errors.
func readNamed(name string, o *Options) error {
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) || strings.ContainsAny(name, "/.") {
		return ReadRun(name, o)
	}
	text, found := configs.Read(name)
	if !found {
		all := configs.Names()
		way := suggest.OneOf(name, all)
		if like := suggest.Like(name, all); suggest.Nearest(name, all) == "" && like != nil {
			way = "there are " + strings.Join(like, ", ")
		}
		return fmt.Errorf("%s: neither a file nor a configuration of that name; %s", name, way)
	}
	if err := parseConfig(text, "", o); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// ReadRun is ReadConfig for the configuration of a run: its errors do not name the setting config.
func ReadRun(path string, o *Options) error {
	text, err := document.Read(path, maxConfig)
	if err != nil {
		return err
	}
	if err := parseConfig(text, filepath.Dir(path), o); err != nil {
		return refusal.Errorf("%s: %w", path, err)
	}
	return nil
}

// ErrSeveralDocuments refuses a file of several YAML documents.
var ErrSeveralDocuments = errors.New("holds several YAML documents; one was expected")

// parseConfig reads the text of a file in that folder.
func parseConfig(text []byte, folder string, o *Options) error {
	file, err := ParseYAML(text)
	if err != nil {
		return YAMLError(err)
	}
	if len(file.Docs) > 1 {
		return ErrSeveralDocuments
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
		name := pair.Key.GetToken()
		if err := setFromYAML(o, name.Value, folder, pair.Value, seen[name.Value]); err != nil {
			return fmt.Errorf("line %d: %w", name.Position.Line, err)
		}
		seen[name.Value] = true
	}
	return nil
}

func setFromYAML(o *Options, key, folder string, value ast.Node, again bool) error {
	switch value.(type) {
	case *ast.AnchorNode, *ast.AliasNode:
		return fmt.Errorf("%s: YAML's anchors and aliases (& and *) are not read; write the value itself",
			key)
	}
	setting, known := settingNamed(key)
	scalar, ok := value.(ast.ScalarNode)
	single := ok && scalar.GetValue() != nil
	if !known {
		if same, was := former[key]; was && single && fmt.Sprint(scalar.GetValue()) == same {
			return nil
		}
		return fmt.Errorf("unknown key %q; %s", key, Unknown(key))
	}
	if again {
		return fmt.Errorf("%s stands twice", key)
	}
	if !single {
		return fmt.Errorf("%s: a single value was expected", key)
	}
	text := fmt.Sprint(scalar.GetValue())
	err := setting.Set(o, text)
	if err == nil && setting.namesFile(o) && !filepath.IsAbs(text) {
		err = setting.Set(o, filepath.Join(folder, text))
	}
	if err != nil {
		return fmt.Errorf("%s %q: %w", key, fmt.Sprint(scalar.GetValue()), err)
	}
	if reason := setting.reject(o); reason != "" {
		text := setting.Text(o)
		if setting.Kind() == "string" {
			text = strconv.Quote(text) // the text may hold line breaks
		}
		return fmt.Errorf("%s %s: %s", key, text, reason)
	}
	return nil
}

// Limits of the YAML of a configuration, which needs a mapping and nothing nested.
const (
	maxCollections = 100 // lists, mappings in braces, and keys with a question mark
	maxLineBreaks  = 200 // in a row

	oneLineEach = "write a line as in \"hidden: 64\" for each setting"
)

// ParseYAML parses YAML that nests little. The scanner takes time and memory that grow with the square of the
// number of empty lines in a row, and the parser with the square of the depth, so ParseYAML refuses many of
// either beforehand. Mappings by indentation need no limit, as their text grows with the square of the depth
// as well.
func ParseYAML(text []byte) (*ast.File, error) {
	breaks := 0
	for _, b := range text {
		switch b {
		case '\n', '\r':
			breaks++
			if breaks > maxLineBreaks {
				return nil, fmt.Errorf("more than %d line breaks in a row; %s", maxLineBreaks, oneLineEach)
			}
		case ' ', '\t':
		default:
			breaks = 0
		}
	}
	tokens := lexer.Tokenize(string(text))
	collections := 0
	for _, t := range tokens {
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType, token.SequenceEntryType, token.MappingKeyType:
			collections++
			if collections > maxCollections {
				return nil, fmt.Errorf("line %d: more than %d lists and mappings; %s", t.Position.Line,
					maxCollections, oneLineEach)
			}
		}
	}
	return parser.Parse(tokens, 0)
}

// YAMLError makes one line of a parser's error, which draws several of the file's lines.
func YAMLError(err error) error {
	var located yaml.Error
	if errors.As(err, &located) && located.GetToken() != nil {
		return fmt.Errorf("line %d: %s", located.GetToken().Position.Line, located.GetMessage())
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return errors.New(line)
}

// YAML writes every setting that applies to the model, in the form that ReadConfig reads. It leaves out where
// the first weights came from, and a mesh, partitions and a folder that are not given, so that the file says
// how to repeat the run anywhere.
func (r *Resolved) YAML() ([]byte, error) {
	o := &r.Options
	var file yaml.MapSlice
	left := map[string]bool{
		"init": true, "parallel": o.Parallel == "", "partitions": o.Partitions == 0,
		"offload": o.Offload == "", "program": o.Program.Path == "",
	}
	for _, s := range settings {
		if left[s.Name] || !s.Applies(o) || !s.appliesTo(r.Mesh) {
			continue
		}
		value := s.Value(o)
		if s.namesFile(o) { // the file in the run's directory
			file = append(file, yaml.MapItem{Key: s.Name, Value: s.keeps.name})
			continue
		}
		switch value.(type) {
		case fmt.Stringer:
			value = s.Text(o)
			if n, err := strconv.Atoi(s.Text(o)); err == nil { // numbers stand without quotes
				value = n
			}
		}
		file = append(file, yaml.MapItem{Key: s.Name, Value: value})
	}
	return yaml.Marshal(file)
}
