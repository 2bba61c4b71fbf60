package setting

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"

	"weft/internal/refusal"
	"weft/parallel/mesh"
)

// Texts are the texts of all settings, by name.
func (o *Options) Texts() map[string]string {
	texts := map[string]string{}
	for _, s := range settings {
		texts[s.Name] = s.recorded(o)
	}
	return texts
}

// FromTexts are the options of a run, by its Texts.
func FromTexts(texts map[string]string) (o Options, err error) {
	o = Defaults()
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		s, known := settingNamed(name)
		if !known {
			if same, was := former[name]; was && texts[name] == same {
				continue
			}
			return o, refusal.Errorf("the run has the setting %s %s, which this version does not have; %s",
				name, texts[name], Unknown(name))
		}
		if err := s.Set(&o, texts[name]); err != nil {
			return o, refusal.Errorf("%s %s: %w", name, texts[name], err)
		}
	}
	return o, nil
}

// CheckContinues refuses to continue a run with other settings, unless they may change. A setting of an axis
// counts if both meshes have the axis. A file that is not where it was may have been moved.
func (r *Resolved) CheckContinues(before *Options, m mesh.Mesh) error {
	for _, s := range settings {
		applies := s.Applies(&r.Options) && s.appliesTo(r.Mesh) && s.appliesTo(m)
		was, is := s.recorded(before), s.recorded(&r.Options)
		moved := s.isFile != nil && s.isFile(was) && s.isFile(is) && !isThere(was)
		if !s.changes && !moved && applies && was != is {
			return refusal.Errorf("--"+s.Name+" %s: the run to continue has %s; give that, or begin a "+
				"new run in another folder", cmp.Or(is, `""`), cmp.Or(was, `""`))
		}
	}
	return nil
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
