internal import MQTTCodec

/// Properties of a message, where there are any: most messages have none, and the struct is large.
struct PropertyBox: Hashable, Sendable {
    private final class Storage: Sendable {
        let properties: Properties

        init(_ properties: Properties) { self.properties = properties }
    }

    private var storage: Storage?

    init(_ properties: Properties = Properties()) {
        if !properties.isEmpty { storage = Storage(properties) }
    }

    /// No property.
    init(_ nothing: Void) {}

    var isEmpty: Bool { storage == nil }

    var value: Properties {
        get { storage?.properties ?? Properties() }
        set { self = PropertyBox(newValue) }
    }

    static func == (left: PropertyBox, right: PropertyBox) -> Bool {
        left.storage === right.storage || left.value == right.value
    }

    func hash(into hasher: inout Hasher) { hasher.combine(value) }
}
