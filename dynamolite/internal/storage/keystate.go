package storage

import "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

// KeyState is a key as it is on disk.
type KeyState struct {
	Hash  KeyPart `json:"hash"`
	Range KeyPart `json:"range,omitzero"`
}

// KeyPart is a key attribute as it is on disk.
type KeyPart struct {
	Name string                    `json:"name"`
	Kind types.ScalarAttributeType `json:"type"`
}

// StateOfKey returns a key in its form on disk.
func StateOfKey(k *KeySchema) KeyState {
	return KeyState{Hash: KeyPart{k.Hash.Name, k.Hash.Kind}, Range: KeyPart{k.Rng.Name, k.Rng.Kind}}
}

// Schema returns the key that a state describes.
func (k *KeyState) Schema() KeySchema {
	s := KeySchema{Hash: KeyAttribute{Name: k.Hash.Name, Kind: k.Hash.Kind, Max: MaxHashKey}}
	if k.Range.Name != "" {
		s.Rng = KeyAttribute{Name: k.Range.Name, Kind: k.Range.Kind, Max: MaxRangeKey}
	}
	return s
}
