package columns

import (
	"encoding/json"
	"maps"
	"slices"

	"weft/internal/document"
	"weft/internal/refusal"
)

// ByType has the columns of vertex types, by the type's name.
type ByType map[string]List

// format is the version of the JSON object as which ByType is written.
const format = 1

// byType is this object.
type byType struct {
	Format int    `json:"format"`
	Types  ByType `json:"types"`
}

// Encode returns what Decode reads: a JSON object.
func (b ByType) Encode() ([]byte, error) { return json.Marshal(byType{format, b}) }

// Decode reads the columns of vertex types. It refuses lists that no table gives, as a damaged file may have.
func Decode(text []byte) (ByType, error) {
	var read byType
	if err := document.JSON(text, format, &read); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(read.Types)) {
		if l := read.Types[name]; l.Check(l.Width()) != nil {
			return nil, refusal.Damaged("type %.40q: %w", name, l.Check(l.Width()))
		}
	}
	return read.Types, nil
}
