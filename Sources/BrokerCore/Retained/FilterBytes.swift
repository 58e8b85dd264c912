/// The bytes of a Topic Filter in a set: all of them are hashed at once, as an array hashes one by one.
struct FilterBytes: Hashable {
    let bytes: [UInt8]

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    func hash(into hasher: inout Hasher) { bytes.withUnsafeBytes { hasher.combine(bytes: $0) } }
}
