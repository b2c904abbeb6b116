# SPDX-License-Identifier: MIT
"""The version, equal to the C++ package's: CMakeLists.txt holds one against the other."""
__version__ = "0.1.0"
