public import MQTTCodec

/// Values by name, in the order of the names' bytes. A change moves the names behind it; looking one up is O(1).
public struct NameTable<Value: Sendable>: Sendable {
    /// In the order of their bytes.
    public private(set) var names: [EncodedString] = []
    private var values: [EncodedString: Value] = [:]

    public init() {}

    public var count: Int { names.count }

    public subscript(name: EncodedString) -> Value? {
        get { values[name] }
        set {
            let isThere = values[name] != nil
            switch (isThere, newValue) {
            case (false, let value?):
                names.insert(name, at: place(of: name))
                values[name] = value
            case (true, let value?): values[name] = value
            case (true, nil):
                names.remove(at: place(of: name))
                values[name] = nil
            case (false, nil): return
            }
        }
    }

    /// Changes the value of a name in place; nothing happens if there is none.
    mutating func update(_ name: EncodedString, _ body: (inout Value) -> Void) {
        guard let index = values.index(forKey: name) else { return }
        body(&values.values[index])
    }

    /// Where a name stands, or would.
    private func place(of name: EncodedString) -> Int {
        var (low, high) = (0, names.count)
        while low < high {
            let middle = (low + high) / 2
            if names[middle].bytes.lexicographicallyPrecedes(name.bytes) { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
