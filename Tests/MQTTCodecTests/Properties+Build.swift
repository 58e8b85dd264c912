import MQTTCodec

/// Properties with some of them set, in one expression.
func properties(_ set: (inout Properties) -> Void) -> Properties {
    var properties = Properties()
    set(&properties)
    return properties
}
