// SPDX-License-Identifier: MIT
#include "python.hpp"
#include "qkgeom/core/error.hpp"

NB_MODULE(_qkgeom, m) {
  nanobind::set_leak_warnings(false);  // an exception that nobody caught holds results until the process ends
  m.doc() = "The compiled half of qkgeom";
  m.attr("__version__") = QKGEOM_VERSION;
  nanobind::exception<qkgeom::error>(m, "Error", PyExc_ValueError);
  qkgeom::python::bind_results(m);
  qkgeom::python::bind_analysis(m);
  qkgeom::python::bind_captures(m);
#ifdef QKGEOM_PYTHON_PAGES
  qkgeom::python::bind_pages(m);
  qkgeom::python::bind_programs(m);
#endif
}
