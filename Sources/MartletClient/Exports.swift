// TopicName, TopicFilter, QoS, ReasonCode, Properties, Payload, Publication: the words of the library, without a second import.
@_exported public import ClientCore
@_exported public import MQTTCodec
