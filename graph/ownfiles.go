package graph

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"weft/internal/refusal"
)

// ownFiles are the names that weft gives to the files of a store and of a part.
var ownFiles = slices.Concat([]string{
	descriptionFile, checkedFile, featuresFile, featuresIndptrFile, featuresIndicesFile, featuresDataFile,
	labelsFile, namesFile, classNamesFile, idsFile, graphIDsFile,
}, inEdges.names(), outEdges.names(), splitFiles[:], splitEdgeFiles[:], splitNegativeFile[1:],
	[]string{edgeLabelsFile, edgeClassNamesFile, edgeSplitByFile}, edgePartFiles[:])

func (r relationFiles) names() []string { return []string{r.indptr, r.indices, r.weights, r.features} }

// CheckOwn refuses a path that weft may not replace, because it is no directory or was not made by weft. The
// directory must have a regular file of the name mark, if that is not empty. It may only hold regular files
// with the names of a store's or a part's files, the folders of types and relations with such files, and
// entries for which also is true.
func CheckOwn(dir, mark string, also func(fs.DirEntry) bool) error {
	before, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if err = checkOwn(before, dir, mark, also); err == nil {
		return nil
	}
	if after, gone := os.Lstat(dir); gone != nil || !os.SameFile(before, after) { // it was replaced meanwhile
		return CheckOwn(dir, mark, also)
	}
	return err
}

func checkOwn(info fs.FileInfo, dir, mark string, also func(fs.DirEntry) bool) error {
	const wayOut = "move it elsewhere or remove it"
	if !info.IsDir() {
		return refusal.Errorf("%s: not a folder, and in the place of one of weft's; %s", dir, wayOut)
	}
	if mark != "" {
		if info, err := os.Lstat(filepath.Join(dir, mark)); err != nil || !info.Mode().IsRegular() {
			return refusal.Errorf("%s: a folder without %s, so not one that weft made, in the place of "+
				"one; %s", dir, mark, wayOut)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		at := filepath.Join(dir, e.Name())
		if e.IsDir() && (e.Name() == verticesFolder || e.Name() == edgesFolder) {
			if err := checkOwnTypes(at); err != nil {
				return err
			}
			continue
		}
		if own := e.Type().IsRegular() && slices.Contains(ownFiles, e.Name()); !own && !also(e) {
			return refusal.Errorf("%s: not one of weft's files, in a folder that would be replaced; %s",
				filepath.Join(dir, e.Name()), wayOut)
		}
	}
	return nil
}

// checkOwnTypes refuses a directory of types, or of relations, if one of them has other files than weft's.
func checkOwnTypes(dir string) error {
	types, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, t := range types {
		if err := CheckOwn(filepath.Join(dir, t.Name()), "",
			func(fs.DirEntry) bool { return false }); err != nil {
			return err
		}
	}
	return nil
}
