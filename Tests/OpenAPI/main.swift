import Administration

// Writes the API's description, as the broker serves it: what Sources/Administration/openapi.json holds
// (`make openapi`).
print(String(decoding: APIDescription.bytes, as: UTF8.self), terminator: "")
