public import MQTTCodec

extension Properties {
    /// Properties with what `change` sets.
    public static func having(_ change: (inout Properties) -> Void) -> Properties {
        var properties = Properties()
        change(&properties)
        return properties
    }

    /// These properties with what `change` sets.
    public func with(_ change: (inout Properties) -> Void) -> Properties {
        var properties = self
        change(&properties)
        return properties
    }
}
