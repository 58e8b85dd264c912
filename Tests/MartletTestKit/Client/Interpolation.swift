public import MQTTCodec

// Tests write texts with numbers in them as literals; an illegal one is a mistake of the test and traps.
extension EncodedString: ExpressibleByStringInterpolation {}
extension TopicName: ExpressibleByStringInterpolation {}
extension TopicFilter: ExpressibleByStringInterpolation {}
