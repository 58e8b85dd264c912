// The types of MQTT that a program needs. They are declared in modules that are no products: each is re-exported by
// itself, so that nothing else of these modules is a name of the library, and is here for the library's documentation.

@_exported public import struct ClientCore.Payload
@_exported public import struct ClientCore.Publication
@_exported public import struct ClientCore.ReceivedMessage
@_exported public import struct ClientCore.UnreadCount
@_exported public import struct MQTTCodec.EncodedString
@_exported public import struct MQTTCodec.Properties
@_exported public import enum MQTTCodec.ProtocolVersion
@_exported public import enum MQTTCodec.QoS
@_exported public import struct MQTTCodec.ReasonCode
@_exported public import enum MQTTCodec.RetainHandling
@_exported public import struct MQTTCodec.TopicFilter
@_exported public import struct MQTTCodec.TopicName
@_exported public import struct MQTTCodec.UserProperty
@_exported public import struct MQTTCodec.Will

/// A topic that messages are published to: levels with slashes between them, such as `home/kitchen/lamp`, without
/// wildcards.
///
/// A literal is one; a text that is made at run time is given to the calls as it is, or checked by
/// ``init(validating:)-(String)``. At most 65,535 bytes.
public typealias TopicName = MQTTCodec.TopicName

/// What a subscription asks for: a topic in which `+` stands for one level and a last `#` for all that follow, or
/// `$share/GROUP/FILTER`, whose messages a group shares.
public typealias TopicFilter = MQTTCodec.TopicFilter

/// How often a message arrives: at most, at least, or exactly once.
public typealias QoS = MQTTCodec.QoS

/// What a server or a client answers: success, or why not. The names and numbers of MQTT 5.0.
public typealias ReasonCode = MQTTCodec.ReasonCode

/// The properties of MQTT 5.0 that go with a message, or with a packet of the connection, named as the standard names
/// them.
public typealias Properties = MQTTCodec.Properties

/// A name and a value of the program's own that go with a message. MQTT 5.0 only.
public typealias UserProperty = MQTTCodec.UserProperty

/// The standard's UTF-8 Encoded String: a text of at most 65,535 bytes, without U+0000. Equal means the same bytes.
public typealias EncodedString = MQTTCodec.EncodedString

/// Which version of MQTT a client speaks: 5.0, 3.1.1 or 3.1.
public typealias ProtocolVersion = MQTTCodec.ProtocolVersion

/// Which retained messages come when a subscription begins. MQTT 5.0 only.
public typealias RetainHandling = MQTTCodec.RetainHandling

/// The message that the server publishes when the connection ends without a DISCONNECT.
public typealias Will = MQTTCodec.Will

/// The bytes of a message: made of a text, of bytes or, with MartletClientJSON, of Foundation's `Data`.
///
/// A received one shares the memory of what came with it, up to 16 KiB; `bytes` is a copy of its own, `text` the bytes
/// as text.
public typealias Payload = ClientCore.Payload

/// A message to be published: its topic and payload, QoS, retain and properties.
public typealias Publication = ClientCore.Publication

/// A message as the server has sent it, as interceptors and inboxes see it.
public typealias ReceivedMessage = ClientCore.ReceivedMessage

/// How many messages of an inbox nobody has read, in all and by conversation.
public typealias UnreadCount = ClientCore.UnreadCount
