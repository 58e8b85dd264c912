/// The version of mosquitto whose defaults are taken.
public enum MosquittoCompatibility: String, Sendable, Equatable, CaseIterable {
    case version2_0 = "2.0"
    case version2_1 = "2.1"
}
